#include "model/fold.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_tensor.hpp"

namespace driftbound::onnx {
namespace {

const NotMapped uses_statistics{"its outputs after the first are used"};

double epsilon(const NodeView& node) {
  return real_or(node.proto, "epsilon", 1e-5f);
}

Mapping map_batch(const NodeView& node) {
  const bool trains =
      integer_or(node.proto, "training_mode", 0) != 0 || integer_or(node.proto, "is_test", node.opset < 7 ? 0 : 1) == 0;
  if (trains) return NotMapped{"training mode takes statistics of the batch; export the model for inference"};
  if (integer_or(node.proto, "spatial", 1) == 0) return NotMapped{"statistics of every position (spatial = 0)"};
  if (uses_more_than_first(node)) return uses_statistics;
  return MappedOp{op::BatchNormalization{epsilon(node)}, {0, 1, 2, 3, 4}};
}

Mapping map_instance(const NodeView& node) {
  return MappedOp{op::InstanceNormalization{epsilon(node)}, {0, 1, 2}};
}

/// Scale and bias belong to groups before opset 21, to channels from then on.
Mapping map_group(const NodeView& node) {
  return MappedOp{op::GroupNormalization{required_integer(node.proto, "num_groups"), epsilon(node), node.opset < 21},
                  {0, 1, 2}};
}

/// epsilon in the type of x, where that is the type of the statistics and represents it.
std::optional<StoredTensor> epsilon_of_statistics(const NodeView& node, double value) {
  const ElementType type = node.operands[0].type.value_or(ElementType::f32);
  if (element_type(static_cast<DataType>(integer_or(node.proto, "stash_type", 1))) != type) return std::nullopt;
  const StoredTensor epsilon = StoredTensor::from(Tensor<float>({}, {static_cast<float>(value)}));
  return fold(op::Cast{type}, {&epsilon}, node.allowance);
}

/// Mean and 1 / sqrt(variance + epsilon), the outputs after the first, are ops of their own.
Mapping layer_with_statistics(const NodeView& node, const op::LayerNormalization& norm) {
  const auto rank = rank_of(node, 0);
  if (!rank) return NotMapped{"its outputs after the first are used, and the rank of its input is not known"};
  const auto epsilon = epsilon_of_statistics(node, norm.epsilon);
  if (!epsilon)
    return NotMapped{
        "its outputs after the first are used, and their type (stash_type) is not its input's or rounds epsilon"};
  const auto signed_rank = static_cast<std::int64_t>(*rank);
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = norm.axis < 0 ? norm.axis + signed_rank : norm.axis; axis < signed_rank; ++axis) {
    axes.push_back(axis);
  }
  MappedOps mapped;
  std::vector<MappedOps::Input> inputs;
  for (const std::size_t slot : given_slots(node)) inputs.push_back(MappedOps::slot(slot));
  const MappedOps::Input x = MappedOps::slot(0), constant{MappedOps::Source::constant, 0};
  mapped.constants.push_back(*epsilon);
  const MappedOps::Input y = mapped.add(norm, inputs);
  const MappedOps::Input mean = mapped.add(op::ReduceMean{axes, true}, {x});
  const MappedOps::Input centred = mapped.add(op::Sub{}, {x, mean});
  const MappedOps::Input squares = mapped.add(op::Mul{}, {centred, centred});
  const MappedOps::Input variance = mapped.add(op::ReduceMean{axes, true}, {squares});
  const MappedOps::Input root = mapped.add(op::Sqrt{}, {mapped.add(op::Add{}, {variance, constant})});
  mapped.outputs = {y, mean, mapped.add(op::Reciprocal{}, {root})};
  return mapped;
}

Mapping map_layer(const NodeView& node) {
  const op::LayerNormalization norm{integer_or(node.proto, "axis", -1), epsilon(node)};
  if (uses_more_than_first(node)) return layer_with_statistics(node, norm);
  return MappedOp{norm, given_slots(node)};
}

Mapping map_rms(const NodeView& node) {
  return MappedOp{op::RMSNormalization{integer_or(node.proto, "axis", -1), epsilon(node)}, {0, 1}};
}

Mapping map_lp(const NodeView& node) {
  const op::LpNormalization norm{integer_or(node.proto, "axis", -1), integer_or(node.proto, "p", 2)};
  if (norm.p != 1 && norm.p != 2) fail("attribute 'p' must be 1 or 2");
  return MappedOp{norm, {0}};
}

constexpr std::array<Rule, 6> rules = {{
    {"BatchNormalization",
     5,
     5,
     means<op::BatchNormalization>(map_batch, "at inference, statistics of channels"),
     {"epsilon", "momentum", "training_mode", "spatial", "is_test", "consumed_inputs"},
     1},
    {"InstanceNormalization", 3, 3, means<op::InstanceNormalization>(map_instance), {"epsilon"}, 1},
    {"GroupNormalization", 3, 3, means<op::GroupNormalization>(map_group), {"epsilon", "num_groups", "stash_type"}, 18},
    {"LayerNormalization",
     2,
     3,
     means<op::LayerNormalization>(map_layer, "outputs after the first become ops of their own"),
     {"axis", "epsilon", "stash_type"},
     17},
    {"RMSNormalization", 2, 2, means<op::RMSNormalization>(map_rms), {"axis", "epsilon", "stash_type"}, 23},
    {"LpNormalization",
     1,
     1,
     means<op::LpNormalization>(map_lp, "division by a norm of 0 as well, where ONNX has 0 since opset 22"),
     {"axis", "p"},
     1},
}};

}  // namespace

std::span<const Rule> normalisation_rules() {
  return rules;
}

}  // namespace driftbound::onnx
