#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/judge.hpp"
#include "analysis/tolerance.hpp"
#include "analysis/tolerance_rules.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/trace/function_libraries.hpp"
#include "driftbound/trace/matrix_units.hpp"

namespace driftbound::analysis {
namespace {

/// Kernels that a tolerance is said of.
struct Kernels {
  ArithmeticModel arithmetic;
  std::string text;    ///< ToleranceOf::kernels
  std::string device;  ///< whose matrix unit they use; empty: none
};

ArithmeticModel arithmetic_of(const ToleranceRequest& request) {
  ArithmeticModel arithmetic;
  arithmetic.name = fmt::format("{} operands, {} sums, {} results", format(request.input).name,
                                format(request.accumulator).name, format(request.output).name);
  arithmetic.input = request.input;
  arithmetic.accumulator = request.accumulator;
  arithmetic.output = request.output;
  arithmetic.order = request.order;
  arithmetic.functions = function_library(request.functions).functions;
  arithmetic.evidence = Evidence::assumed;
  arithmetic.source = "the command";
  return arithmetic;
}

Kernels kernels_of(const ToleranceRequest& request, const OpRule& rule) {
  const std::string sums = fmt::format("{} in {}", rule.has_sums ? "sums" : "steps", format(request.accumulator).name);
  const bool is_known = request.order.kind != SummationOrder::Kind::unknown;
  const std::string order = is_known ? "in order " + to_string(request.order) : "in any order";
  return {arithmetic_of(request),
          fmt::format("{}{}rounded to nearest", sums, rule.has_sums ? ", " + order + " and " : ", "), ""};
}

/// Products that the matrix unit of a device adds up, and all else as the request says.
Kernels kernels_of_unit(const ToleranceRequest& request, std::string_view device) {
  Kernels kernels{arithmetic_of(request), "", std::string(device)};
  const ArithmeticModel of_device =
      simulated_arithmetic(device, format(request.input).name, {SummationOrder::Kind::sequential, 0, true});
  kernels.arithmetic.tensor_core = of_device.tensor_core;
  kernels.arithmetic.order = {};
  for (const SimulatedDevice& one : simulated_devices())
    if (one.name == device) kernels.text = fmt::format("the matrix unit of {}", one.text);
  if (request.promotion > 0 && kernels.arithmetic.tensor_core) {
    kernels.arithmetic.tensor_core->promotion = static_cast<int>(request.promotion);
    kernels.text += fmt::format(", added up in float32 every {} products", request.promotion);
  }
  return kernels;
}

bool adds_to_float32(const ToleranceRequest& request) {
  return request.accumulator == FormatId::fp32 && request.scaled_input.empty();
}

/// The kernels asked for, and those of the weakest matrix unit that reads such operands, unless a device is named.
std::vector<Kernels> all_kernels_of(const ToleranceRequest& request, const OpRule& rule) {
  if (!request.device.empty()) return {kernels_of_unit(request, request.device)};
  std::vector<Kernels> all = {kernels_of(request, rule)};
  const bool has_products = rule.is_product || rule.is_attention;
  if (!has_products || !adds_to_float32(request)) return all;
  if (const std::optional<SimulatedDevice> weakest = weakest_device(request.input))
    all.push_back(kernels_of_unit(request, weakest->name));
  return all;
}

/// A number as memory holds it: of the operands' format, of float32 where products alone read them in TF32.
double as_operand(double x, const ToleranceRequest& request) {
  const FormatId id = request.input == FormatId::tf32 ? FormatId::fp32 : request.input;
  return round_to(x, format(id), Rounding::nearest_even);
}

/// What k terms within ±magnitude lose where a sum reads them in a narrower format: half a unit each (T-138).
Magnitude error_of_reading_terms(std::int64_t k, double magnitude, const Format& narrow) {
  return Magnitude(static_cast<double>(k)) * Magnitude(0.5 * ulp(magnitude, narrow));
}

/// What k products of numbers within ±magnitude lose where their factors are rounded to TF32: every factor by e at most,
/// half the distance of numbers of TF32 below the magnitude, so that a product is off by 2 magnitude e + e^2 (T-138).
Magnitude error_of_reading_tf32(std::int64_t k, double magnitude) {
  const Magnitude e(0.5 * ulp(std::nextafter(magnitude, 0.0), format(FormatId::tf32)));
  return Magnitude(static_cast<double>(k)) * (Magnitude(2.0) * Magnitude(magnitude) * e + e * e);
}

std::string operand_name(std::size_t slot) {
  return fmt::format("operand {}", slot);
}

/// One op with operands of these shapes.
Graph graph_of(const std::string& name, const Op& op, const std::vector<Shape>& shapes) {
  Graph graph;
  std::vector<ValueId> operands;
  for (std::size_t slot = 0; slot < shapes.size(); ++slot) {
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shapes[slot]) declared.push_back({extent, ""});
    operands.push_back(graph.add_input(operand_name(slot), ElementType::f64, std::move(declared)));
    graph.values[operands.back()].has_declared_shape = true;
  }
  graph.outputs = {graph.add_node(name, op, std::move(operands))};
  graph.values[graph.outputs.front()].type = ElementType::f64;
  return graph;
}

/// Of magnitudes; infinite where there is a NaN.
double largest_magnitude_in(const Tensor<double>& of) {
  double most = 0.0;
  for (const double x : of.values) {
    if (std::isnan(x)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(x));
  }
  return most;
}

ToleranceOf summed_up(std::string data, const Kernels& kernels, OpTolerance tolerance) {
  ToleranceOf part{std::move(data), kernels.text, kernels.device, std::move(tolerance), 0.0, 0.0, 0.0, std::nullopt};
  part.largest_result = largest_magnitude_in(part.tolerance.exact);
  part.proven = largest_magnitude_in(part.tolerance.proven);
  part.by_chance = largest_magnitude_in(part.tolerance.by_chance);
  if (!part.tolerance.estimate.values.empty()) part.estimate = largest_magnitude_in(part.tolerance.estimate);
  return part;
}

/// Whether an operand is the mask of attention.
bool is_mask(const OpRule& rule, std::size_t slot) {
  return rule.is_attention && slot == 3;
}

/// What is wrong with a request, whatever its numbers are.
class Checks {
public:
  explicit Checks(const ToleranceRequest& request) : request_(request), rule_(tolerance_rule(request.op)) {}

  void check() const {
    check_failure_probability(request_.failure_probability);
    refuse_what_the_op_lacks();
    check_numbers_of_the_op();
    check_device();
    check_promotion();
    if (request_.data.empty())
      check_made_operands();
    else
      check_data();
  }

private:
  /// Refuses what is asked for but says nothing of the op.
  void refuse(bool is_asked, const char* what, const char* options) const {
    if (is_asked)
      throw InvalidArgument(fmt::format("tolerance: {} has no {}; leave {} out", rule_.op.name, what, options));
  }

  void refuse_what_the_op_lacks() const {
    const bool knows_order = request_.order.kind != SummationOrder::Kind::unknown;
    refuse(request_.has_bias && !rule_.is_product, "bias", "--bias");
    refuse(request_.keys != 0 && !rule_.is_attention, "keys", "--keys");
    refuse(request_.scale.has_value() && !rule_.is_attention, "scale of scores", "--scale");
    refuse(request_.is_causal && !rule_.is_attention, "keys", "--causal");
    refuse(request_.epsilon.has_value() && !rule_.epsilon, "epsilon", "--epsilon");
    refuse(knows_order && !rule_.has_sums, "sums", "--order and --split-k");
    refuse(!request_.device.empty() && !rule_.is_product && !rule_.is_attention, "products", "--device");
    if (request_.input == FormatId::tf32 && !rule_.is_product && !rule_.is_attention)
      throw InvalidArgument(fmt::format("tolerance: {} has no product that reads operands in TF32", rule_.op.name));
  }

  void check_promotion() const {
    if (request_.promotion == 0) return;
    refuse(!rule_.is_product && !rule_.is_attention, "products", "--promotion");
    if (!adds_to_float32(request_) || (request_.device.empty() && !weakest_device(request_.input)))
      throw InvalidArgument(
          "tolerance: --promotion is for sums of a matrix unit: name a format that one reads (--in), and leave --acc "
          "out");
    const std::string_view device = request_.device.empty() ? weakest_device(request_.input)->name : request_.device;
    const std::optional<TensorCore> unit = kernels_of_unit(request_, device).arithmetic.tensor_core;
    constexpr std::int64_t most = std::int64_t{1} << 30;
    if (request_.promotion > most || (unit && request_.promotion < unit->block))
      throw InvalidArgument(fmt::format(
          "tolerance: --promotion {}: the unit adds up to {} products in a step; give as many or more, up to {}",
          request_.promotion, unit ? unit->block : 1, most));
  }

  /// A device must have a matrix unit that adds such products up.
  void check_device() const {
    if (request_.device.empty()) return;
    if (!adds_to_float32(request_))
      throw InvalidArgument(
          "tolerance: --device: the matrix units that are known add products of formats without scales up in float32; "
          "leave --acc or --device out");
    if (request_.order.kind != SummationOrder::Kind::unknown)
      throw InvalidArgument(
          "tolerance: the bound of a matrix unit holds in any order; leave --order and --split-k, or --device, out");
    if (!kernels_of_unit(request_, request_.device).arithmetic.tensor_core)
      throw InvalidArgument(fmt::format(
          "tolerance: --device: {} operands are multiplied without a matrix unit; name the format that they are read "
          "in by --in, or leave --device out",
          format(request_.input).name));
  }

  void check_numbers_of_the_op() const {
    if (request_.epsilon && !(*request_.epsilon > 0.0 && std::isfinite(*request_.epsilon)))
      throw InvalidArgument("tolerance: --epsilon: give a finite number above 0");
    if (request_.scale && !(*request_.scale != 0.0 && std::isfinite(*request_.scale)))
      throw InvalidArgument("tolerance: --scale: give a finite number that is not 0");
  }

  void check_made_operands() const {
    constexpr double largest_magnitude = 1e300;
    constexpr std::int64_t most_terms = std::int64_t{1} << 24, most_keys = std::int64_t{1} << 20;
    const double magnitude = request_.magnitude;
    if (!(magnitude > 0.0) || !(magnitude <= largest_magnitude))
      throw InvalidArgument("tolerance: --magnitude: give a number above 0, up to 1e300");
    const Format& input = format(request_.input);
    if (magnitude > input.largest)
      throw InvalidArgument(fmt::format("tolerance: --magnitude {} is above the largest number of {}, {}", magnitude,
                                        input.name, input.largest));
    if (as_operand(magnitude, request_) == 0.0)
      throw InvalidArgument(fmt::format("tolerance: --magnitude {} is 0 in {}", magnitude, input.name));
    if (request_.k == 0)
      throw InvalidArgument("tolerance: give --k, the length of the sum or row, 1 or more, or --data");
    if (request_.k < 1 || request_.k > most_terms)
      throw InvalidArgument(fmt::format("tolerance: --k is {}: give a number from 1 to {}", request_.k, most_terms));
    if (rule_.is_attention && request_.keys == 0)
      throw InvalidArgument("tolerance: attention needs --keys, the number of keys, beside --k, the size of a head");
    if (request_.keys < 0 || request_.keys > most_keys)
      throw InvalidArgument(
          fmt::format("tolerance: --keys is {}: give a number from 1 to {}", request_.keys, most_keys));
    if (rule_.has_halves && request_.k % 2 != 0)
      throw InvalidArgument("tolerance: --k is odd, and the op takes halves of a row");
    if (request_.order.kind == SummationOrder::Kind::split_k && request_.order.parameter > request_.k)
      throw InvalidArgument("tolerance: --split-k is larger than --k: a sum has no more parts than terms");
  }

  void check_data() const {
    const ToleranceRequest made;
    for (const auto& [option, is_given] :
         {std::pair("--k", request_.k != made.k), std::pair("--keys", request_.keys != made.keys),
          std::pair("--magnitude", request_.magnitude != made.magnitude),
          std::pair("--seed", request_.seed != made.seed)})
      if (is_given)
        throw InvalidArgument(
            fmt::format("tolerance: {} is for operands that are made, and --data gives them", option));
    const std::size_t count = request_.data.size();
    if (count < rule_.fewest || count > rule_.most)
      throw InvalidArgument(fmt::format("tolerance: --data has {} array{}, and {} reads {}", count,
                                        count == 1 ? "" : "s", rule_.op.name, rule_.op.operands));
    const Shape& first = request_.data.front().shape();
    if (rule_.axes > 0 && first.size() != rule_.axes)
      throw InvalidArgument(fmt::format("tolerance: the first array of --data has the shape {}, and {} reads {}",
                                        driftbound::to_string(first), rule_.op.name, rule_.op.operands));
    for (std::size_t slot = 0; slot < count; ++slot) check_array(request_.data[slot], is_mask(rule_, slot));
    if (rule_.is_product) {
      const Shape& second = request_.data[1].shape();
      if (second.size() != 2 || second[0] != first[1])
        throw InvalidArgument(fmt::format("tolerance: the arrays of --data have the shapes {} and {}, and {} reads {}",
                                          driftbound::to_string(first), driftbound::to_string(second), rule_.op.name,
                                          rule_.op.operands));
    }
    if (rule_.has_halves && first.back() % 2 != 0)
      throw InvalidArgument(fmt::format("tolerance: rows of {} numbers are odd, and {} takes halves of a row",
                                        first.back(), rule_.op.name));
  }

  void check_array(const StoredTensor& array, bool is_a_mask) const {
    if (is_a_mask && !is_float(array.type()) && array.type() != ElementType::boolean)
      throw InvalidArgument(
          "tolerance: the mask of --data holds integers; give booleans (which keys a query sees) or numbers that are "
          "added to the scores");
    if (!is_a_mask && (!is_float(array.type()) || !array.all_finite()))
      throw InvalidArgument("tolerance: --data holds integers, NaN or infinities; give finite floating-point numbers");
    if (array.shape().empty() || array.size() == 0)
      throw InvalidArgument(
          fmt::format("tolerance: --data has the shape {}, and every op takes rows of numbers; {} reads {}",
                      driftbound::to_string(array.shape()), rule_.op.name, rule_.op.operands));
  }

  const ToleranceRequest& request_;
  const OpRule& rule_;
};

class Answer {
public:
  Answer(const ToleranceRequest& request, const OpRule& rule, const Kernels& kernels)
      : request_(request), rule_(rule), kernels_(kernels), arithmetic_(kernels.arithmetic) {}

  std::vector<ToleranceOf> parts() const {
    if (!request_.data.empty()) return {of_data()};
    std::vector<ToleranceOf> parts;
    if (rule_.has_worst_data) parts.push_back(of_largest());
    ToleranceOf of_normal_data = of_normal();
    if (const std::optional<ErrorWithin> any = error_within(request_, arithmetic_))
      parts.push_back(of_any(*any, of_normal_data.tolerance));
    parts.push_back(std::move(of_normal_data));
    return parts;
  }

private:
  Graph graph(const std::vector<Shape>& shapes) const { return graph_of(request_.op, rule_.make(request_), shapes); }

  Tensor<double> made_operand(std::size_t slot, const Inputs& made, const Shape& shape) const {
    Tensor<double> operand(shape, made.at(operand_name(slot)).to_double().values);
    if (request_.op == "rotary" && slot > 0) {  // cosines and sines of the same angles
      operand.values = made.at(operand_name(1)).to_double().values;
      for (double& x : operand.values) x = slot == 1 ? std::cos(x) : std::sin(x);
    }
    if (rule_.has_unit_scales && slot > 0) std::fill(operand.values.begin(), operand.values.end(), 1.0);
    return operand;
  }

  void require_finite(const Tensor<double>& operand) const {
    if (!std::all_of(operand.values.begin(), operand.values.end(), [](double x) { return std::isfinite(x); }))
      throw InvalidArgument(fmt::format(
          "tolerance: an operand has NaN or a number above the largest one of {}; give numbers that the format holds, "
          "or another --in",
          format(request_.input).name));
  }

  /// Elements of two axes from `first` on, as many as `shape` has; of a vector, those of the second axis.
  static Tensor<double> block_of(const Tensor<double>& all, const Shape& first, const Shape& shape) {
    const bool is_vector = all.shape.size() < 2;
    const auto rows = static_cast<std::size_t>(is_vector ? 1 : shape[0]), columns = static_cast<std::size_t>(shape[1]);
    Tensor<double> block(is_vector ? Shape{shape[1]} : shape);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto from =
          (is_vector ? 0 : static_cast<std::size_t>((first[0] + static_cast<std::int64_t>(row)) * all.shape[1])) +
          static_cast<std::size_t>(first[1]);
      std::copy_n(all.values.begin() + static_cast<std::ptrdiff_t>(from), columns,
                  block.values.begin() + static_cast<std::ptrdiff_t>(row * columns));
    }
    return block;
  }

  static void put_block(const Tensor<double>& block, const Shape& first, Tensor<double>& all) {
    for (std::int64_t row = 0; row < block.shape[0]; ++row)
      std::copy_n(block.values.begin() + row * block.shape[1], block.shape[1],
                  all.values.begin() + (first[0] + row) * all.shape[1] + first[1]);
  }

  /// Results of a product depend on their own row and column alone. In small blocks, estimates do not follow each of them
  /// through all operands.
  OpTolerance tolerance(std::vector<Tensor<double>> operands) const {
    constexpr std::int64_t side = 4, most = 1024;
    const auto has_axes = [&](std::size_t slot, std::size_t axes) { return operands[slot].shape.size() == axes; };
    const bool is_matrix_product = rule_.is_product && operands.size() >= 2 && has_axes(0, 2) && has_axes(1, 2) &&
                                   (operands.size() == 2 || has_axes(2, 1));
    const std::int64_t m = is_matrix_product ? operands[0].shape[0] : 0;
    const std::int64_t n = is_matrix_product ? operands[1].shape[1] : 0;
    if (m * n <= side * side || m * n > most)
      return tolerance_at_once(std::move(operands), request_.failure_probability);
    OpTolerance all;
    const std::int64_t blocks = ((m + side - 1) / side) * ((n + side - 1) / side);
    const double of_one = request_.failure_probability / static_cast<double>(blocks);  // so that it is that of all
    for (Tensor<double>* of : {&all.exact, &all.proven, &all.by_chance, &all.estimate}) *of = Tensor<double>({m, n});
    for (std::int64_t row = 0; row < m; row += side)
      for (std::int64_t column = 0; column < n; column += side) {
        const std::int64_t rows = std::min(side, m - row), columns = std::min(side, n - column);
        std::vector<Tensor<double>> of_block = {block_of(operands[0], {row, 0}, {rows, operands[0].shape[1]}),
                                                block_of(operands[1], {0, column}, {operands[1].shape[0], columns})};
        if (operands.size() > 2) of_block.push_back(block_of(operands[2], {0, column}, {1, columns}));
        OpTolerance block = tolerance_at_once(std::move(of_block), of_one);
        put_block(block.exact, {row, column}, all.exact);
        put_block(block.proven, {row, column}, all.proven);
        put_block(block.by_chance, {row, column}, all.by_chance);
        if (block.estimate.size() > 0 && all.estimate.size() > 0)
          put_block(block.estimate, {row, column}, all.estimate);
        if (block.estimate.size() == 0) all.estimate = {};
        if (block.guarantee == Guarantee::conditional) all.guarantee = Guarantee::conditional;
        all.assumptions = std::move(block.assumptions);
      }
    return all;
  }

  /// The operands are rounded to their format first.
  OpTolerance tolerance_at_once(std::vector<Tensor<double>> operands, double failure_probability) const {
    std::vector<Shape> shapes;
    Inputs inputs;
    for (Tensor<double>& operand : operands) {
      for (double& x : operand.values) x = as_operand(x, request_);
      require_finite(operand);
      shapes.push_back(operand.shape);
      inputs.tensors.emplace_back(operand_name(inputs.tensors.size()), StoredTensor::from(operand));
    }
    const bool is_one_sum = rule_.has_worst_data;
    if (is_one_sum || request_.stores_inside || request_.output == request_.accumulator)
      return tolerance_of(graph(shapes), inputs, arithmetic_, failure_probability, request_.threads);
    ArithmeticModel inside = arithmetic_;
    inside.output = inside.accumulator;
    return stored(tolerance_of(graph(shapes), inputs, inside, failure_probability, request_.threads));
  }

  /// The results of a kernel that keeps everything in the accumulator, rounded once to the format of the results.
  OpTolerance stored(OpTolerance tolerance) const {
    const Format& to = format(request_.output);
    for (Tensor<double>* of : {&tolerance.proven, &tolerance.by_chance, &tolerance.estimate})
      for (std::size_t i = 0; i < of->values.size(); ++i) {
        const Magnitude largest = Magnitude(tolerance.exact.values[i]) + Magnitude(of->values[i]);
        const bool fits = largest.value() <= to.largest;
        const Magnitude last = fits ? Magnitude(0.5 * ulp(largest.value(), to)) : Magnitude::infinite();
        of->values[i] = (Magnitude(of->values[i]) + last).value();
      }
    return tolerance;
  }

  ToleranceOf of_data() const {
    std::vector<Tensor<double>> operands;
    for (std::size_t slot = 0; slot < request_.data.size(); ++slot)
      if (!is_mask(rule_, slot)) {
        operands.push_back(request_.data[slot].to_double());
      } else if (std::optional<Tensor<double>> added = added_by_mask(request_.data[slot])) {
        operands.push_back(std::move(*added));
      }
    return summed_up("the data given", kernels_, tolerance(std::move(operands)));
  }

  /// All factors as large as they may be, and of one sign: one result says it. For a matrix unit comes one more product
  /// with a factor 0, as other data may have small factors (T-138).
  ToleranceOf of_largest() const {
    std::vector<Tensor<double>> operands;
    ToleranceRequest sized = request_;
    if (arithmetic_.tensor_core) ++sized.k;
    for (Shape shape : rule_.shapes(sized)) {
      if (operands.empty()) shape.front() = 1;
      if (!operands.empty()) shape.back() = 1;  // [k, n] and [n]
      Tensor<double> operand(shape);
      operands.push_back(std::move(operand));
    }
    double largest = request_.magnitude;
    const bool reads_tf32 = request_.input == FormatId::tf32 && rule_.is_product;
    if (reads_tf32) largest = round_to(largest, format(FormatId::tf32), Rounding::up);
    const Format& sums = format(request_.accumulator);
    const bool narrows = !rule_.is_product && !holds_all_of(sums, format(request_.input));
    if (narrows) largest = round_to(largest, sums, Rounding::up);
    for (Tensor<double>& operand : operands) std::fill(operand.values.begin(), operand.values.end(), largest);
    if (arithmetic_.tensor_core) operands[1].values.back() = 0.0;
    OpTolerance of_all = tolerance(std::move(operands));
    if (narrows)
      for (Tensor<double>* of : {&of_all.proven, &of_all.by_chance, &of_all.estimate})
        for (double& x : of->values)
          x = (Magnitude(x) + error_of_reading_terms(request_.k, request_.magnitude, sums)).value();
    if (reads_tf32)
      for (Tensor<double>* of : {&of_all.proven, &of_all.by_chance, &of_all.estimate})
        for (double& x : of->values) x = (Magnitude(x) + error_of_reading_tf32(request_.k, request_.magnitude)).value();
    return summed_up(fmt::format("any data within ±{}", request_.magnitude), kernels_, std::move(of_all));
  }

  /// T-185, as one result of the largest magnitude; `like` has the guarantee and the assumptions.
  ToleranceOf of_any(const ErrorWithin& any, const OpTolerance& like) const {
    OpTolerance of_all;
    of_all.exact = Tensor<double>({1}, {any.result.value()});
    of_all.proven = of_all.by_chance = Tensor<double>({1}, {any.error.value()});
    of_all.guarantee = like.guarantee;
    of_all.assumptions = like.assumptions;
    if (request_.output != request_.accumulator) of_all = stored(std::move(of_all));
    return summed_up(fmt::format("any data within ±{}", request_.magnitude), kernels_, std::move(of_all));
  }

  ToleranceOf of_normal() const {
    InputGenerator generator;
    generator.distribution = InputDistribution::normal;
    generator.samples = 1;
    generator.seed = request_.seed;
    generator.domain = {{-request_.magnitude, request_.magnitude}};
    const std::vector<Shape> shapes = rule_.shapes(request_);
    const Inputs made = generate_inputs(graph(shapes), generator);
    std::vector<Tensor<double>> operands;
    for (std::size_t slot = 0; slot < shapes.size(); ++slot) operands.push_back(made_operand(slot, made, shapes[slot]));
    return summed_up(fmt::format("normal data, standard deviation {}", request_.magnitude), kernels_,
                     tolerance(std::move(operands)));
  }

  const ToleranceRequest& request_;
  const OpRule& rule_;
  const Kernels& kernels_;
  const ArithmeticModel& arithmetic_;
};

}  // namespace

ToleranceReport answer(const ToleranceRequest& request) {
  Checks(request).check();
  ToleranceRequest whole = request;
  if (!whole.epsilon) whole.epsilon = tolerance_rule(request.op).epsilon;
  const OpRule& rule = tolerance_rule(request.op);
  ToleranceReport report;
  for (const Kernels& kernels : all_kernels_of(whole, rule)) {
    for (ToleranceOf& part : Answer(whole, rule, kernels).parts()) report.parts.push_back(std::move(part));
    if (report.asked == 0) report.asked = report.parts.size();
  }
  report.request = std::move(whole);
  report.op = rule.op;
  return report;
}

}  // namespace driftbound::analysis
