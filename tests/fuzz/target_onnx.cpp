#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "fuzz/draw.hpp"
#include "fuzz/study.hpp"
#include "model/load_formats.hpp"
#include "support/onnx_writer.hpp"

namespace driftbound::fuzz {
namespace {

using test::Message;
using test::OnnxAttribute;

void load_and_study(std::vector<std::byte> bytes) {
  const ModelDescription model = describe_onnx(MappedFile::holding(std::move(bytes)), "folder without data files");
  if (model.unsupported.empty()) study(model.graph);
}

constexpr int deepest_branch = 3;

/// Names that the rules of the loader know and Op does not, some of them often.
constexpr std::array<std::string_view, 62> other_types = {"If",
                                                          "If",
                                                          "If",
                                                          "If",
                                                          "f",
                                                          "f",
                                                          "f",
                                                          "g",
                                                          "g",
                                                          "g",
                                                          "Shape",
                                                          "Shape",
                                                          "Size",
                                                          "Range",
                                                          "Range",
                                                          "Constant",
                                                          "Sum",
                                                          "Mean",
                                                          "Min",
                                                          "Max",
                                                          "Mod",
                                                          "Equal",
                                                          "Less",
                                                          "Not",
                                                          "And",
                                                          "Or",
                                                          "Split",
                                                          "Pad",
                                                          "Clip",
                                                          "Dropout",
                                                          "ReduceProd",
                                                          "ConstantOfShape",
                                                          "Xor",
                                                          "CastLike",
                                                          "Trilu",
                                                          "Shrink",
                                                          "Mod",
                                                          "Hardmax",
                                                          "CumSum",
                                                          "CumProd",
                                                          "DepthToSpace",
                                                          "SpaceToDepth",
                                                          "LRN",
                                                          "LpPool",
                                                          "GlobalLpPool",
                                                          "Asin",
                                                          "Acos",
                                                          "GatherElements",
                                                          "GatherND",
                                                          "Scatter",
                                                          "ScatterElements",
                                                          "ScatterND",
                                                          "OneHot",
                                                          "Compress",
                                                          "Resize",
                                                          "Upsample",
                                                          "RNN",
                                                          "GRU",
                                                          "LSTM",
                                                          "LSTM",
                                                          "NegativeLogLikelihoodLoss",
                                                          "SoftmaxCrossEntropyLoss"};

template <std::size_t... index>
std::vector<std::string> all_op_types(std::index_sequence<index...>) {
  std::vector<std::string> types(other_types.begin(), other_types.end());
  (types.emplace_back(name_of(std::variant_alternative_t<index, OpAlternatives>{})), ...);
  return types;
}

const std::string& op_type(Draw& draw) {
  static const std::vector<std::string> types =
      all_op_types(std::make_index_sequence<std::variant_size_v<OpAlternatives>>());
  return types[draw.pick(types.size())];
}

constexpr std::array<std::string_view, 87> attributes = {"alpha",
                                                         "beta",
                                                         "axis",
                                                         "axes",
                                                         "transA",
                                                         "transB",
                                                         "perm",
                                                         "allowzero",
                                                         "to",
                                                         "value",
                                                         "value_ints",
                                                         "value_float",
                                                         "value_floats",
                                                         "value_int",
                                                         "sparse_value",
                                                         "ratio",
                                                         "saturate",
                                                         "pads",
                                                         "strides",
                                                         "dilations",
                                                         "kernel_shape",
                                                         "auto_pad",
                                                         "group",
                                                         "ceil_mode",
                                                         "count_include_pad",
                                                         "storage_order",
                                                         "output_padding",
                                                         "output_shape",
                                                         "keepdims",
                                                         "noop_with_empty_axes",
                                                         "start",
                                                         "end",
                                                         "starts",
                                                         "ends",
                                                         "steps",
                                                         "mode",
                                                         "paddings",
                                                         "split",
                                                         "num_outputs",
                                                         "epsilon",
                                                         "gamma",
                                                         "momentum",
                                                         "spatial",
                                                         "num_groups",
                                                         "stash_type",
                                                         "p",
                                                         "approximate",
                                                         "max",
                                                         "min",
                                                         "broadcast",
                                                         "is_causal",
                                                         "scale",
                                                         "softcap",
                                                         "q_num_heads",
                                                         "kv_num_heads",
                                                         "qk_matmul_output_mode",
                                                         "softmax_precision",
                                                         "interleaved",
                                                         "num_heads",
                                                         "rotary_embedding_dim",
                                                         "equation",
                                                         "training_mode",
                                                         "fmod",
                                                         "shape",
                                                         "blocksize",
                                                         "upper",
                                                         "reduction",
                                                         "exclusive",
                                                         "reverse",
                                                         "batch_dims",
                                                         "hidden_size",
                                                         "direction",
                                                         "layout",
                                                         "linear_before_reset",
                                                         "coordinate_transformation_mode",
                                                         "nearest_mode",
                                                         "cubic_coeff_a",
                                                         "exclude_outside",
                                                         "antialias",
                                                         "keep_aspect_ratio_policy",
                                                         "ignore_index",
                                                         "lambd",
                                                         "bias",
                                                         "size",
                                                         "clip",
                                                         "scales",
                                                         "activations"};
constexpr std::array<std::string_view, 28> words = {"NOTSET",
                                                    "VALID",
                                                    "SAME_UPPER",
                                                    "SAME_LOWER",
                                                    "constant",
                                                    "reflect",
                                                    "edge",
                                                    "wrap",
                                                    "tanh",
                                                    "none",
                                                    "ij,jk->ik",
                                                    "bij,bjk->bik",
                                                    "linear",
                                                    "cubic",
                                                    "asymmetric",
                                                    "align_corners",
                                                    "pytorch_half_pixel",
                                                    "half_pixel_symmetric",
                                                    "floor",
                                                    "ceil",
                                                    "CRD",
                                                    "add",
                                                    "max",
                                                    "sum",
                                                    "mean",
                                                    "bidirectional",
                                                    "reverse",
                                                    "not_larger"};

/// Few names, so that draws meet.
std::string name(Draw& draw) {
  const std::size_t choice = draw.byte();
  if (choice == 255) return draw.text(8);
  return choice % 16 == 15 ? "" : std::string(1, static_cast<char>('a' + choice % 16));
}

Message tensor(Draw& draw, std::string_view tensor_name) {
  const std::vector<std::int64_t> shape = draw.integers(4);
  const auto type = static_cast<int>(draw.pick(18));
  Message message = test::onnx_tensor_header(tensor_name, type, shape);
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements = extent >= 0 && extent < 8 ? elements * extent : 0;
  const std::size_t size = draw.flag() ? static_cast<std::size_t>(elements % 65) : draw.pick(65);
  constexpr std::array<int, 18> widths = {1, 4, 1, 1, 2, 2, 4, 8, 1, 1, 2, 8, 4, 8, 8, 16, 2, 1};
  switch (draw.pick(4)) {
    case 0:
      for (std::size_t i = 0; i < size; ++i) message.varint(7, draw.byte());
      break;
    case 1:
      for (std::size_t i = 0; i < size; ++i) message.varint(5, draw.byte());
      break;
    default:
      message.bytes(9, std::string(size * static_cast<std::size_t>(widths[static_cast<std::size_t>(type)]),
                                   static_cast<char>(draw.byte())));
  }
  if (draw.byte() == 255) message.varint(14, 1).message(13, Message().bytes(1, "location").bytes(2, draw.text(12)));
  return message;
}

Message sparse_tensor(Draw& draw, std::string_view tensor_name) {
  const Message values = tensor(draw, tensor_name), indices = tensor(draw, "");
  return test::onnx_sparse_tensor(values, indices, draw.integers(3));
}

Message node(Draw& draw, int depth);

Message branch(Draw& draw, int depth) {
  std::vector<Message> nodes;
  for (std::size_t i = 0, count = 1 + draw.pick(3); i < count; ++i) nodes.push_back(node(draw, depth - 1));
  return test::onnx_graph(nodes, {name(draw)});
}

OnnxAttribute attribute(Draw& draw) {
  const std::string_view attribute_name = attributes[draw.pick(attributes.size())];
  switch (draw.pick(7)) {
    case 0:
      return OnnxAttribute::of_int(attribute_name, draw.integer());
    case 1:
      return OnnxAttribute::of_ints(attribute_name, draw.integers(6));
    case 2:
      return OnnxAttribute::of_float(attribute_name, static_cast<float>(draw.byte()));
    case 3:
      return OnnxAttribute::of_tensor(attribute_name, tensor(draw, ""));
    case 4:
      return OnnxAttribute::of_sparse_tensor(attribute_name, sparse_tensor(draw, ""));
    case 5:
      return OnnxAttribute::reference(attribute_name, attributes[draw.pick(4)], 1 + static_cast<int>(draw.pick(8)));
    default:
      return OnnxAttribute::of_string(attribute_name,
                                      draw.flag() ? std::string(words[draw.pick(words.size())]) : draw.text(4));
  }
}

Message node(Draw& draw, int depth) {
  const std::string& op = op_type(draw);
  std::vector<std::string> inputs(draw.pick(6)), outputs(draw.byte() == 255 ? 2 : 1);
  for (std::string& input : inputs) input = name(draw);
  for (std::string& output : outputs) output = name(draw);
  std::vector<OnnxAttribute> drawn;
  if (op == "If" && depth > 0) {
    drawn.push_back(OnnxAttribute::of_graph("then_branch", branch(draw, depth)));
    drawn.push_back(OnnxAttribute::of_graph("else_branch", branch(draw, depth)));
  } else {
    for (std::size_t i = 0, count = draw.pick(4); i < count; ++i) drawn.push_back(attribute(draw));
  }
  const std::string domain = op.size() == 1 ? "local" : draw.byte() == 255 ? "ai.onnx.ml" : "";
  return test::onnx_node(op, inputs, outputs, drawn, draw.flag() ? name(draw) : "", domain);
}

Message function(Draw& draw) {
  std::vector<Message> nodes;
  for (std::size_t i = 0, count = draw.pick(4); i < count; ++i) nodes.push_back(node(draw, 1));
  std::vector<std::string> inputs(draw.pick(3));
  for (std::string& input : inputs) input = name(draw);
  Message message = test::onnx_function(draw.flag() ? "f" : "g", inputs, {name(draw)}, nodes);
  for (std::size_t i = 0, count = draw.pick(3); i < count; ++i) message.bytes(6, attributes[draw.pick(4)]);
  return message;
}

void add_input(test::OnnxModel& model, Draw& draw) {
  std::vector<test::OnnxModel::Dimension> shape;
  for (const std::int64_t extent : draw.integers(5)) {
    if (extent == -1) shape.emplace_back("N");
    if (extent != -1) shape.emplace_back(extent);
  }
  model.input(name(draw), shape, draw.flag() ? test::onnx_float : static_cast<int>(draw.pick(18)));
}

}  // namespace

void read_onnx(Bytes bytes) {
  load_and_study({bytes.begin(), bytes.end()});
}

void read_drawn_onnx(Bytes bytes) {
  Draw draw(bytes);
  test::OnnxModel model(7 + static_cast<std::int64_t>(draw.pick(18)), static_cast<std::int64_t>(draw.pick(12)));
  for (std::size_t part = 0; part < 24 && !draw.is_empty(); ++part) {
    switch (draw.pick(8)) {
      case 0:
        add_input(model, draw);
        break;
      case 1:
        model.initializer(tensor(draw, name(draw)));
        break;
      case 2:
        model.output(name(draw));
        break;
      case 3:
        model.function(function(draw));
        break;
      case 4:
        model.sparse_initializer(sparse_tensor(draw, name(draw)));
        break;
      default:
        model.graph().message(1, node(draw, deepest_branch));
    }
  }
  const std::string file = model.bytes();
  const Bytes contents = std::as_bytes(std::span(file));
  load_and_study({contents.begin(), contents.end()});
}

}  // namespace driftbound::fuzz
