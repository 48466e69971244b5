#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/document.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::analysis {

/// What the results of one op may be off by, element by element.
struct OpTolerance {
  Tensor<double> exact;   ///< the exact results, as doubles
  Tensor<double> proven;  ///< no run of the arithmetic is off by more; infinite: no bound
  /// No element is off by more but with the failure probability asked for, if rounding errors are random (T-74); `proven`
  /// where that says nothing.
  Tensor<double> by_chance;
  /// Six standard deviations of sums in random order (T-75): an estimate. Empty: of too many elements.
  Tensor<double> estimate;
  Guarantee guarantee = Guarantee::proven;  ///< of `proven`: proven or conditional
  std::vector<std::string> assumptions;
};

/// Bounds |y^ - f(x)| of every run y^ of one op f at operands x as given: kernels of any program, sums in any order, or in
/// that of the arithmetic where it states one.
/// Shapes:    of the op's result
/// Source:    docs/theory.md T-138
/// Throws:    what bound() and the references throw
OpTolerance tolerance_of(const Graph& graph, const Inputs& inputs, const ArithmeticModel& arithmetic,
                         double failure_probability, int threads);

/// What `tolerance` is asked.
struct ToleranceRequest {
  std::string op;         ///< one of tolerance_ops()
  std::int64_t k = 0;     ///< length of a sum or a row
  std::int64_t keys = 0;  ///< attention: number of keys
  bool has_bias = false;
  std::optional<double> epsilon;   ///< of a norm; empty: 1e-5 for layernorm, 1e-6 for rmsnorm
  std::optional<double> scale;     ///< of the scores of attention; empty: 1 / sqrt(size of a head)
  bool is_causal = false;          ///< attention: query i sees keys up to i
  bool stores_inside = false;      ///< every step stores its result in the format of the results
  double magnitude = 1.0;          ///< largest magnitude of operands that are not given; of normal ones: 1 sigma
  std::vector<StoredTensor> data;  ///< operands, as they are read, and a mask; empty: none are given
  /// Operands are blocks of narrow numbers with a common scale, a power of two: the name of the format ("mxfp8"). Their
  /// products are exact in float32, whatever the scales. `input` is fp32 for data, which are scaled numbers, else bf16.
  /// Empty: `input` says it all.
  std::string scaled_input;
  FormatId input = FormatId::fp32, accumulator = FormatId::fp32, output = FormatId::fp32;
  SummationOrder order;
  std::string device;  ///< whose matrix unit adds up products, as simulated_devices() names it; empty: none
  /// A matrix unit's sum is added to a float32 after at most this many products (T-21); 0: at the end alone.
  std::int64_t promotion = 0;
  std::string functions = "cuda";  ///< library whose functions are called
  double failure_probability = 1e-9;
  std::uint64_t seed = 1;
  int threads = 1;
};

/// Formats and the order of sums by name, as the program and C take them.
struct ToleranceWords {
  std::string input = "fp32", accumulator = "fp32";
  std::string output;        ///< empty: that of the sums
  std::string order;         ///< empty: any
  std::int64_t split_k = 0;  ///< so many parts, each added up in turn; 0: `order` says it
};

/// Reads the words into a request, whose data are given by then.
/// Throws:    InvalidArgument naming the option
void read_words(const ToleranceWords& words, ToleranceRequest& request);

/// An op that `tolerance` knows.
struct ToleranceOp {
  std::string_view name;
  std::string_view operands;  ///< with shapes
  std::string_view formula;   ///< of the bound, to first order
};
const std::vector<ToleranceOp>& tolerance_ops();
std::string names_of_tolerance_ops();  // "gemm, conv, …"

/// What is said of some data and some kernels.
struct ToleranceOf {
  std::string data;  ///< "any data with |a|, |b| <= 1", "normal data", "the data given"
  std::string
      kernels;  ///< "sums in fp32, in any order and rounded to nearest", "the matrix unit of NVIDIA Hopper (H100)"
  std::string device;  ///< whose matrix unit it is; empty: none
  OpTolerance tolerance;
  double largest_result = 0.0;           ///< of |exact|
  double proven = 0.0, by_chance = 0.0;  ///< largest of the elements
  std::optional<double> estimate;
};

struct ToleranceReport {
  std::string command, date;
  double seconds = 0.0;
  ToleranceRequest request;
  ToleranceOp op;
  /// Of the kernels that are asked for: any data, if there is a bound for them, and normal data; or the data given. Then
  /// the same of the weakest matrix unit there is (weakest_device()), where one reads the operands and none is named.
  std::vector<ToleranceOf> parts;
  std::size_t asked = 0;  ///< parts of the kernels that are asked for

  const ToleranceOf& last_asked() const { return parts[asked - 1]; }
};

/// Answers a request.
/// Throws:    InvalidArgument naming the option that is missing or does not fit
ToleranceReport answer(const ToleranceRequest& request);

/// JSON has the schema driftbound/tolerance/1 (docs/schema/tolerance-1.json).
Document document_of(const ToleranceReport& report);

}  // namespace driftbound::analysis
