#include <array>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/text.hpp"

// Losses of classes that are constants.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;

/// What the constant classes of a loss say.
struct Targets {
  Shape shape;
  std::vector<std::int64_t> positions;  ///< of the class's element in scores [N, C, D...] flattened
  std::vector<std::int64_t> classes;
  std::vector<bool> counts;  ///< false for a class that is ignored
  std::int64_t counted = 0;
};

Targets targets_of(const NodeView& node, const StoredTensor& constant, const Shape& scores) {
  const Tensor<std::int64_t> classes = constant.to_int64();
  Shape expected = scores;
  if (scores.size() < 2) throw ShapeMismatch("its scores are no [N, C, ...]");
  expected.erase(expected.begin() + 1);
  if (classes.shape != expected)
    throw ShapeMismatch("classes " + to_string(classes.shape) + " for scores " + to_string(scores));
  pay_for_elements(node, element_count(expected), 3 * sizeof(std::int64_t), "its classes");
  const auto ignored = find_attribute(node.proto, "ignore_index", AttributeType::integer);
  const std::int64_t behind = count_between(scores, 2, scores.size());
  Targets targets{expected, {}, {}, {}, 0};
  for (std::size_t i = 0; i < classes.values.size(); ++i) {
    const std::int64_t named = classes.values[i];
    const bool counts = !ignored || named != ignored->integer.value_or(0);
    if (counts && (named < 0 || named >= scores[1]))
      throw ShapeMismatch("class " + std::to_string(named) + " of " + std::to_string(scores[1]));
    const std::int64_t kept = counts ? named : 0, sample = static_cast<std::int64_t>(i) / behind;
    targets.positions.push_back((sample * scores[1] + kept) * behind + static_cast<std::int64_t>(i) % behind);
    targets.classes.push_back(kept);
    targets.counts.push_back(counts);
    targets.counted += counts ? 1 : 0;
  }
  return targets;
}

/// 0 where a class is ignored.
Input masked(StepWriter& steps, const Targets& targets, Input x) {
  if (targets.counted == static_cast<std::int64_t>(targets.counts.size())) return x;
  const Input zero = steps.zero();
  return steps.apply(op::Where{targets.shape, targets.counts}, {x, zero});
}

/// - weight of the class times its element; all, or their sum or weighted mean.
Input loss_of(StepWriter& steps, const NodeView& node, const Targets& targets, Input scores) {
  const std::string_view reduction = text_or(node.proto, "reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    fail("attribute 'reduction' is " + in_quotes(reduction));
  const Input flat = steps.reshape(scores, {-1});
  Input loss = steps.apply(op::Neg{}, {steps.apply(op::Gather{0, targets.shape, targets.positions}, {flat})});
  std::optional<Input> weights;
  if (is_given(node, 2)) {
    weights = steps.apply(op::Gather{0, targets.shape, targets.classes}, {steps.slot(2)});
    loss = steps.multiply(loss, *weights);
  }
  loss = masked(steps, targets, loss);
  if (reduction == "none") return loss;
  const Input sum = steps.apply(op::ReduceSum{{}, false}, {loss});
  if (reduction == "sum") return sum;
  if (targets.counted == 0) throw Unsupported("the mean of no losses: every class is ignored");
  if (!weights) return steps.divide(sum, steps.number(static_cast<double>(targets.counted)));
  const Input total = steps.apply(op::ReduceSum{{}, false}, {masked(steps, targets, *weights)});
  return steps.divide(sum, total);
}

template <bool takes_logarithm>
Mapping map_loss(const NodeView& node) {
  const StoredTensor* classes = node.operands[1].constant;
  if (classes == nullptr) return NotMapped{"its classes are computed, not constants"};
  if (is_float(classes->type())) fail("its classes are no integers");
  const auto scores = shape_of(node, 0);
  if (!scores)
    return NotMapped{"the shape of its scores is not known when loading; export the model with fixed input shapes"};
  if (element_count(*scores) == 0) return NotMapped{"its scores have no elements"};
  const Targets targets = targets_of(node, *classes, *scores);
  StepWriter steps(node);
  Input logarithms = steps.slot(0);
  if (takes_logarithm) logarithms = steps.apply(op::LogSoftmax{1, false}, {logarithms});
  std::vector<Input> outputs = {loss_of(steps, node, targets, logarithms)};
  if (takes_logarithm) outputs.push_back(logarithms);
  return steps.finish(std::move(outputs));
}

constexpr std::array<Rule, 2> rules = {{
    {"NegativeLogLikelihoodLoss",
     2,
     3,
     composes(map_loss<false>, "constant classes, scores of known shape"),
     {"ignore_index", "reduction"},
     12},
    {"SoftmaxCrossEntropyLoss",
     2,
     3,
     composes(map_loss<true>, "constant classes, scores of known shape; a LogSoftmax first"),
     {"ignore_index", "reduction"},
     12},
}};

}  // namespace

std::span<const Rule> loss_rules() {
  return rules;
}

}  // namespace driftbound::onnx
