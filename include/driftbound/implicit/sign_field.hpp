#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "driftbound/bounds/box.hpp"
#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {

/// The sign of an exact number, where it is certain.
enum class Sign : std::int8_t { negative = -1, zero = 0, positive = 1, undecided = 2 };
std::string_view name_of(Sign sign);

/// What decided a sign, in the order in which it is tried.
enum class SignStage : std::uint8_t {
  float32_domain,  ///< float32, with one bound for the whole domain
  float64_domain,  ///< float64, with one bound for the whole domain
  float64_point,   ///< float64, with a bound for every point
  double_double,
  multiprecision,
  given,    ///< somebody else's value, with a bound for a cell of space (implicit/given_values.hpp)
  treated,  ///< nothing: SignOptions::at_limit says which sign to take
  none      ///< nothing
};
inline constexpr std::size_t sign_stages = 8;
std::string_view name_of(SignStage stage);

/// What is known of the exact value f(x) at one point.
struct PointSign {
  Sign sign = Sign::undecided;        ///< of f(x); zero: f(x) is exactly 0
  SignStage stage = SignStage::none;  ///< that decided it
  std::int16_t bits = 0;              ///< precision of that stage, or of the last one tried
  double value = 0.0;                 ///< |value - f(x)| <= bound
  double bound = std::numeric_limits<double>::infinity();
};

/// For codes that compare with 0 and interpolate: near the exact value, with its certified sign; 0 is a proven zero, NaN
/// undecided.
double signed_value(const PointSign& point);

/// What happens to a point that is still undecided at the highest precision.
enum class AtLimit { report, fail, treat_as_negative, treat_as_positive };

/// A sign that no precision within the limit decides, where AtLimit::fail asks for an exception.
class UndecidedSign : public Error {
public:
  using Error::Error;
};

struct SignOptions {
  double iso = 0.0;  ///< f is the scalar of the network minus this
  /// Where most points are expected: bounds that hold everywhere in it are found once. Points outside are decided too,
  /// at more cost. Empty: [-1, 1] in every coordinate.
  std::optional<Box> domain;
  int max_bits = 4096;  ///< the highest precision tried, at least 106
  AtLimit at_limit = AtLimit::report;
  int threads = 1;
};

/// Points counted by their sign and by what decided it.
struct SignStatistics {
  std::int64_t points = 0, negative = 0, zero = 0, positive = 0, undecided = 0;
  struct Stage {
    std::int64_t decided = 0;
    double seconds = 0.0;  ///< summed over threads
  };
  std::array<Stage, sign_stages> stages{};  ///< by SignStage

  SignStatistics& operator+=(const SignStatistics& other);
};

/// The sign of f(x) = scalar of the exact network at x - iso, certified. The exact network is the graph over the reals,
/// and x is the point as it is given: a double is not rounded to the type of the model's input. A cheap handle: copies
/// share everything. const methods may be called by several threads at a time.
/// Guarantee: proven: no sign but `undecided` (and what AtLimit makes of it) is ever wrong
/// Source:    docs/theory.md T-110
class SignField {
public:
  /// For a network with one input and one output element a sample.
  /// Throws:    InvalidArgument (another number of inputs, outputs or elements; an option out of range), Unsupported,
  ///            ShapeMismatch, UnsoundEnvironment
  explicit SignField(Graph graph, const SignOptions& options = {});
  /// For one output element, or the difference of two.
  /// Throws:    InvalidArgument also where the target does not exist
  SignField(Graph graph, const Target& target, const SignOptions& options = {});

  /// Coordinates of a point.
  std::size_t dimension() const;
  /// The network that was given.
  const Graph& graph() const;
  const Target& target() const;
  const SignOptions& options() const;

  /// Finds the bounds for the domain now (docs/performance.md has times), which otherwise later calls do once they pay:
  /// that of float64 after 1,024 points, that of float32, which serves batches of 384 points and more, after 65,536. A
  /// call of fewer than 8 points counts as 8. Copies share them.
  /// Throws:    UnsoundEnvironment; Unsupported as forward_error_bound()
  const SignField& prepare() const;

  /// Once the bound for the domain has been found: no allocation after the first call of a thread, no lock, and seconds
  /// are not counted, where that bound decides.
  /// Throws:    InvalidArgument for a point with another number of coordinates, or with one that is not finite or
  ///            beyond the largest number of the input's type; UndecidedSign where the options say so;
  ///            UnsoundEnvironment
  PointSign at(std::span<const double> point) const;

  /// Signs of `rows` points; coordinate c of point r is points[r row_stride + c column_stride]: (d, 1) for n x d
  /// row-major, (1, n) for column-major.
  /// Shapes:    `out` has `rows` elements
  /// Returns:   the counts of this call
  /// Throws:    as at(), naming the first point; InvalidArgument for another size of `out`
  SignStatistics signs(const double* points, std::int64_t rows, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                       std::span<PointSign> out) const;
  SignStatistics signs(const float* points, std::int64_t rows, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                       std::span<PointSign> out) const;

  /// Of all calls so far, through this handle and its copies.
  SignStatistics statistics() const;

private:
  class State;
  std::shared_ptr<const State> state_;
};

}  // namespace driftbound
