#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound {

struct GivenValueOptions {
  /// The domain is halved, axis by axis, this often at most: 12 gives cells of a sixteenth of it in three dimensions.
  int most_halvings = 12;
  /// A cell has a bound of its own where at least so many points of a call are left in it.
  std::int64_t points_of_a_cell = 1024;
};

/// Signs of a field's scalar from values that another program computed, on a GPU say, without evaluating the network
/// again: each cell of the field's domain has one bound for every run of the program's arithmetic. Cells are found
/// where points need them and kept. A cheap handle; const methods may be called by several threads at a time.
/// Guarantee: guarantee(), under condition(): no sign but `undecided` is wrong
/// Source:    docs/theory.md T-77, T-112
class GivenValues {
public:
  GivenValues(const SignField& field, ArithmeticModel arithmetic, const GivenValueOptions& options = {});

  /// values[r] is the scalar at point r as the program computed it, before the iso value is taken off: an output
  /// element, or two subtracted in double. Points lie as SignField::signs() takes them; the program may have rounded
  /// them to the type of the model's input.
  /// Shapes:    `values` and `out` have one element a point
  /// Returns:   the points whose signs are undecided: outside the domain, too near 0 for the bounds, values that are
  ///            not finite. SignField::signs() decides them.
  /// Throws:    InvalidArgument for other sizes; UnsoundEnvironment; Unsupported as forward_error_bound()
  std::vector<std::int64_t> signs(const double* points, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                                  std::span<const double> values, std::span<PointSign> out) const;
  std::vector<std::int64_t> signs(const float* points, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                                  std::span<const double> values, std::span<PointSign> out) const;

  /// Of the signs so far.
  Guarantee guarantee() const;
  std::string condition() const;
  /// Cells with a bound of their own so far.
  std::size_t cells() const;

private:
  class State;
  std::shared_ptr<const State> state_;
};

}  // namespace driftbound
