#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/safetensors.hpp"
#include "support/hostile.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

const std::string hash(64, 'a');

StoredTensor floats(Shape shape, float first) {
  Tensor<float> tensor(std::move(shape));
  for (std::size_t i = 0; i < tensor.size(); ++i) tensor.values[i] = first + static_cast<float>(i);
  return StoredTensor::from(tensor);
}

/// x [N, 3] -> Gemm [N, 2] -> Relu [N, 2]; the second layer multiplies two constants.
Graph batched_graph() {
  Graph graph;
  const ValueId x = graph.add_input("in/x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId w = graph.add_constant("w", floats({3, 2}, 1));
  const ValueId product = graph.add_node("net/gemm", op::Gemm{}, {x, w});
  const ValueId constant = graph.add_node("constant", op::Mul{}, {w, w});
  const ValueId hidden = graph.add_node("relu", op::Relu{}, {product});
  graph.outputs = {
      graph.add_node("out", op::MatMul{}, {hidden, graph.add_node("transposed", op::Transpose{}, {constant})})};
  return graph;
}

Trace batched_trace() {
  Trace trace;
  trace.model_sha256 = hash;
  trace.arithmetic = cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"));
  trace.provenance = {"driftbound test",      "cpu", "a machine", "2026-11-21", {{"threads", "2"}}, 16,
                      ObserverEffect::changed};
  trace.inputs.tensors.emplace_back("in/x", floats({4, 3}, 0));
  trace.layers = {{"net/gemm", floats({4, 2}, 10)},
                  {"constant", floats({3, 2}, 20)},
                  {"relu", floats({4, 2}, 30)},
                  {"transposed", floats({2, 3}, 40)},
                  {"out", floats({4, 3}, 50)}};
  trace.samples = 4;
  return trace;
}

/// x [3] (no batch) -> y = x + c [3] -> z = relu(y) [3]
Graph single_graph() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{3, ""}});
  const ValueId y = graph.add_node("add", op::Add{}, {x, graph.add_constant("c", floats({3}, 1))});
  graph.outputs = {graph.add_node("relu", op::Relu{}, {y})};
  graph.values[y].name = "sum";
  return graph;
}

using Tensors = std::vector<std::pair<std::string, StoredTensor>>;

std::filesystem::path write(const TemporaryFolder& folder, const Tensors& tensors,
                            const std::map<std::string, std::string>& metadata = {}) {
  std::vector<std::pair<std::string, const StoredTensor*>> pointers;
  for (const auto& [name, tensor] : tensors) pointers.emplace_back(name, &tensor);
  write_safetensors(folder / "t.safetensors", pointers, metadata);
  return folder / "t.safetensors";
}

void check_same(const Trace& a, const Trace& b) {
  CHECK(a.model_sha256 == b.model_sha256);
  CHECK(a.samples == b.samples);
  CHECK(to_json(a.arithmetic) == to_json(b.arithmetic));
  CHECK(a.provenance.program == b.provenance.program);
  CHECK(a.provenance.backend == b.provenance.backend);
  CHECK(a.provenance.device == b.provenance.device);
  CHECK(a.provenance.date == b.provenance.date);
  CHECK(a.provenance.details == b.provenance.details);
  CHECK(a.provenance.batch == b.provenance.batch);
  CHECK(a.provenance.observer_effect == b.provenance.observer_effect);
  REQUIRE(a.inputs.tensors.size() == b.inputs.tensors.size());
  for (std::size_t i = 0; i < a.inputs.tensors.size(); ++i) {
    CHECK(a.inputs.tensors[i].first == b.inputs.tensors[i].first);
    CHECK(a.inputs.tensors[i].second.identical(b.inputs.tensors[i].second));
  }
  REQUIRE(a.layers.size() == b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    CHECK(a.layers[i].name == b.layers[i].name);
    CHECK(a.layers[i].output.identical(b.layers[i].output));
  }
}

template <class Exception>
std::string message_of(const Graph& graph, const std::filesystem::path& file) {
  try {
    read_trace(graph, hash, file);
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a trace survives its file bit for bit") {
  const TemporaryFolder folder;
  const Trace before = batched_trace();
  write_trace(before, folder / "t.safetensors");
  check_same(before, read_trace(batched_graph(), hash, folder / "t.safetensors"));
}

TEST_CASE("a trace's file is laid out as documented") {
  const TemporaryFolder folder;
  write_trace(batched_trace(), folder / "t.safetensors");
  const SafetensorsFile file(folder / "t.safetensors");
  for (const std::string key :
       {"input/in.x", "layer/0/net.gemm/output", "layer/1/constant/output", "layer/4/out/output"}) {
    CHECK(file.contains(key));
  }
  CHECK(file.names().size() == 6);
  CHECK(file.metadata().at("driftbound.trace") == "1");
  CHECK(file.metadata().at("model_sha256") == hash);
  CHECK(arithmetic_from_json(file.metadata().at("arithmetic")).order == parse_summation_order("blocked:8+fma"));
}

TEST_CASE("a model without a batch axis has the samples in front of every layer's shape") {
  const TemporaryFolder folder;
  const Graph graph = single_graph();
  const auto file = write(folder, {{"input/x", floats({2, 3}, 0)},
                                   {"layer/0/add/output", floats({2, 3}, 1)},
                                   {"layer/1/relu/output", floats({2, 3}, 2)}});
  const Trace trace = read_trace(graph, hash, file);
  CHECK(trace.samples == 2);
  const Trace second = slice(graph, batch_layout(graph), trace, 1, 1);
  CHECK(second.samples == 1);
  CHECK(second.inputs.at("x").identical(floats({3}, 3)));
  CHECK(second.layers[0].output.identical(floats({3}, 4)));
  CHECK(second.layers[1].output.identical(floats({3}, 5)));
  CHECK_THROWS_AS(slice(graph, batch_layout(graph), trace, 2, 1), Error);
}

TEST_CASE("a single sample may come without its sample axis") {
  const TemporaryFolder folder;
  const auto file = write(folder, {{"input/x", floats({3}, 0)},
                                   {"layer/0/add/output", floats({3}, 1)},
                                   {"layer/1/relu/output", floats({1, 3}, 2)}});
  const Trace trace = read_trace(single_graph(), hash, file);
  CHECK(trace.layers[0].output.shape() == Shape{1, 3});
  CHECK(trace.layers[1].output.shape() == Shape{1, 3});
}

TEST_CASE("samples of a batched model may come one above the other") {
  const TemporaryFolder folder;
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{1, ""}, {3, ""}});
  graph.outputs = {graph.add_node("y", op::Relu{}, {x})};
  const auto file = write(folder, {{"input/x", floats({4, 1, 3}, 0)}, {"layer/0/y/output", floats({4, 1, 3}, 1)}});
  const Trace trace = read_trace(graph, hash, file);
  CHECK(trace.samples == 4);
  CHECK(trace.layers[0].output.identical(floats({4, 3}, 1)));
}

TEST_CASE("a slice of a batched trace holds its rows and, whole, what does not depend on the input") {
  const Graph graph = batched_graph();
  const Trace part = slice(graph, batch_layout(graph), batched_trace(), 1, 2);
  CHECK(part.samples == 2);
  CHECK(part.inputs.at("in/x").identical(floats({2, 3}, 3)));
  CHECK(part.layers[0].output.identical(floats({2, 2}, 12)));
  CHECK(part.layers[1].output.identical(floats({3, 2}, 20)));
  CHECK(part.layers[4].output.identical(floats({2, 3}, 53)));
  CHECK(part.layers[4].name == "out");
}

TEST_CASE("inputs are used as the model's type rounds them, and float64 stays float64") {
  Graph graph = batched_graph();
  Trace trace = batched_trace();
  trace.inputs.tensors[0].second = StoredTensor::from(Tensor<double>({1, 3}, {0.1, 0.5, 1e300}));
  const StoredTensor used = used_inputs(graph, trace).at("in/x");
  CHECK(used.type() == ElementType::f32);
  CHECK(used.to_double().values[0] == static_cast<double>(0.1f));
  CHECK(used.to_double().values[1] == 0.5);
  graph.values[graph.inputs[0]].type = ElementType::f64;
  CHECK(used_inputs(graph, trace).at("in/x").identical(trace.inputs.tensors[0].second));
}

TEST_CASE("a foreign trace without metadata is taken as float32 in an unknown order, and says that this is assumed") {
  const TemporaryFolder folder;
  const Trace trace = read_trace(single_graph(), hash,
                                 write(folder, {{"input/x", floats({2, 3}, 0)},
                                                {"layer/0/add/output", floats({2, 3}, 1)},
                                                {"layer/1/relu/output", floats({2, 3}, 2)}}));
  CHECK(trace.model_sha256.empty());
  CHECK(trace.arithmetic.evidence == Evidence::assumed);
  CHECK(trace.arithmetic.order.kind == SummationOrder::Kind::unknown);
  CHECK(trace.arithmetic.accumulator == FormatId::fp32);
  CHECK(trace.arithmetic.accuracy("tanh").units == 5.0);
  CHECK(trace.arithmetic.accuracy("sqrt").units == 1.0);
}

TEST_CASE("float16 layers without a stated arithmetic are refused") {
  const TemporaryFolder folder;
  const StoredTensor half(ElementType::f16, {2, 3}, std::vector<std::byte>(12));
  const auto file =
      write(folder, {{"input/x", floats({2, 3}, 0)}, {"layer/0/add/output", half}, {"layer/1/relu/output", half}});
  CHECK(contains(message_of<InvalidArgument>(single_graph(), file), "arithmetic"));
}

TEST_CASE("layers are found by layer name, then by value name, whatever their index and whatever lies beside them") {
  const TemporaryFolder folder;
  const auto file = write(folder, {{"input/x", floats({2, 3}, 0)},
                                   {"layer/7/relu/output", floats({2, 3}, 2)},
                                   {"layer/9/sum/output", floats({2, 3}, 1)},
                                   {"layer/9/sum/input/0", floats({1}, 1)},
                                   {"layer/3/extra/output", floats({2, 3}, 8)},
                                   {"something else", floats({1}, 0)}});
  const Trace trace = read_trace(single_graph(), hash, file);
  CHECK(trace.layers[0].output.identical(floats({2, 3}, 1)));
  CHECK(trace.layers[1].output.identical(floats({2, 3}, 2)));
}

TEST_CASE(
    "layers with names of their own are matched by order and shape where only one way is left, and that is recorded") {
  const TemporaryFolder folder;
  const Graph graph = batched_graph();
  const auto file = write(folder, {{"input/in.x", floats({4, 3}, 0)},
                                   {"layer/0/linear1/output", floats({4, 2}, 10)},
                                   {"layer/1/constant/output", floats({3, 2}, 20)},
                                   {"layer/2/activation/output", floats({4, 2}, 30)},
                                   {"layer/3/t/output", floats({2, 3}, 40)},
                                   {"layer/10/linear2/output", floats({4, 3}, 50)}});
  const Trace trace = read_trace(graph, hash, file);
  CHECK(trace.layers[0].output.identical(floats({4, 2}, 10)));
  CHECK(trace.layers[2].output.identical(floats({4, 2}, 30)));
  CHECK(trace.layers[4].output.identical(floats({4, 3}, 50)));
  CHECK(contains(trace.provenance.details.at("layers matched by order and shape"), "net/gemm = linear1"));
}

TEST_CASE("where order and shape leave a choice the trace is refused with both candidates") {
  const TemporaryFolder folder;
  const auto file = write(folder, {{"input/x", floats({2, 3}, 0)},
                                   {"layer/0/a/output", floats({2, 3}, 1)},
                                   {"layer/1/b/output", floats({2, 3}, 2)},
                                   {"layer/2/c/output", floats({2, 3}, 3)}});
  const std::string message = message_of<InvalidArgument>(single_graph(), file);
  CHECK(contains(message, "layer/0/a/output"));
  CHECK(contains(message, "layer/1/b/output"));
}

TEST_CASE("a name that occurs twice is told apart by its index or refused") {
  const TemporaryFolder folder;
  const StoredTensor x = floats({2, 3}, 0), a = floats({2, 3}, 1), b = floats({2, 3}, 2), c = floats({2, 3}, 3);
  const Trace trace = read_trace(
      single_graph(), hash,
      write(folder,
            {{"input/x", x}, {"layer/0/add/output", a}, {"layer/5/add/output", b}, {"layer/1/relu/output", c}}));
  CHECK(trace.layers[0].output.identical(a));
  const auto ambiguous =
      write(folder, {{"input/x", x}, {"layer/4/add/output", a}, {"layer/5/add/output", b}, {"layer/1/relu/output", c}});
  CHECK(contains(message_of<InvalidArgument>(single_graph(), ambiguous), "layer/5/add/output"));
}

TEST_CASE("a name that is one layer's and that of another one's output is told apart by its index or refused") {
  const TemporaryFolder folder;
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId first = graph.add_node("h0", op::Relu{}, {x}), second = graph.add_node("h1", op::Neg{}, {first});
  graph.outputs = {graph.add_node("h2", op::Abs{}, {second})};
  graph.values[first].name = "h1";
  graph.values[second].name = "h2";
  const StoredTensor in = floats({2, 3}, 0), a = floats({2, 3}, 1), b = floats({2, 3}, 2), c = floats({2, 3}, 3);
  graph.values[graph.outputs[0]].name = "y";
  const auto check = [&](const Tensors& tensors) {
    const Trace trace = read_trace(graph, hash, write(folder, tensors));
    CHECK(trace.layers[0].output.identical(a));
    CHECK(trace.layers[1].output.identical(b));
    CHECK(trace.layers[2].output.identical(c));
  };
  check({{"input/x", in}, {"layer/0/h1/output", a}, {"layer/1/h2/output", b}, {"layer/2/y/output", c}});
  check({{"input/x", in}, {"layer/0/h0/output", a}, {"layer/1/h1/output", b}, {"layer/2/h2/output", c}});
  check({{"input/x", in},
         {"layer/0/h1/output", a},
         {"layer/1/h1/output", b},
         {"layer/2/h2/output", c},
         {"layer/9/h1/output", c}});
  // One record is of one node alone, and then the next one is.
  check({{"input/x", in}, {"layer/7/h1/output", a}, {"layer/8/h2/output", b}, {"layer/9/y/output", c}});
  check({{"input/x", in}, {"layer/1/h1/output", a}, {"layer/2/h2/output", b}, {"layer/3/y/output", c}});
  check({{"input/x", in}, {"layer/0/h0/output", a}, {"layer/0/h1/output", b}, {"layer/0/h2/output", c}});
  const auto ambiguous =
      write(folder, {{"input/x", in}, {"layer/7/h1/output", a}, {"layer/8/h2/output", b}, {"layer/9/z/output", c}});
  CHECK(contains(message_of<InvalidArgument>(graph, ambiguous), "'layer/7/h1/output' may be of layer 'h0' or 'h1'"));
}

TEST_CASE(
    "layers stored as the model's type are refused where the arithmetic's results are wider, casts and copies apart") {
  const TemporaryFolder folder;
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId half = graph.add_node("cast", op::Cast{ElementType::f16}, {x});
  const ValueId copy = graph.add_node("copy", op::Relu{}, {half});
  const ValueId sum = graph.add_node("sum", op::Add{}, {copy, half});
  const ValueId turned = graph.add_node("turned", op::Neg{}, {sum});
  const ValueId cut = graph.add_node("cut", op::Clip{0.0, 6.0}, {copy});
  graph.outputs = {turned, graph.add_node("whole", op::Floor{}, {cut})};
  const StoredTensor narrow(ElementType::f16, {2, 3}, std::vector<std::byte>(12)), wide = floats({2, 3}, 0);
  const auto trace = [&](const StoredTensor& of_sum, const StoredTensor& of_turned, const char* output) {
    return write(folder,
                 {{"input/x", wide},
                  {"layer/0/cast/output", narrow},
                  {"layer/1/copy/output", narrow},
                  {"layer/2/sum/output", of_sum},
                  {"layer/3/turned/output", of_turned},
                  {"layer/4/cut/output", narrow},
                  {"layer/5/whole/output", narrow}},
                 {{"arithmetic",
                   std::string(R"({"name":"h","input":"fp16","accumulator":"fp32","output":")") + output + "\"}"}});
  };
  CHECK(message_of<ShapeMismatch>(graph, trace(wide, wide, "fp32")) == "");
  CHECK(message_of<ShapeMismatch>(graph, trace(narrow, narrow, "fp16")) == "");
  CHECK(contains(message_of<ShapeMismatch>(graph, trace(narrow, narrow, "fp32")),
                 "layer 'sum' is stored as float16, but its arithmetic's results are fp32"));
  CHECK(contains(message_of<ShapeMismatch>(graph, trace(wide, narrow, "fp32")), "layer 'turned' is stored as float16"));
}

TEST_CASE("missing layers are all listed") {
  const TemporaryFolder folder;
  const auto file = write(folder, {{"input/in.x", floats({4, 3}, 0)}, {"layer/0/net.gemm/output", floats({4, 2}, 10)}});
  const std::string message = message_of<InvalidArgument>(batched_graph(), file);
  for (const std::string key :
       {"layer/1/constant/output", "layer/2/relu/output", "layer/3/transposed/output", "layer/4/out/output"}) {
    CHECK(contains(message, key));
  }
  CHECK_FALSE(contains(message, "gemm"));
}

TEST_CASE("traces that do not fit the model say why") {
  const TemporaryFolder folder;
  const Graph graph = single_graph();
  const StoredTensor x = floats({2, 3}, 0), good = floats({2, 3}, 1);
  CHECK(contains(
      message_of<InvalidArgument>(graph, write(folder, {{"layer/0/add/output", good}, {"layer/1/relu/output", good}})),
      "input 'x'"));
  CHECK(contains(message_of<ShapeMismatch>(graph, write(folder, {{"input/x", x},
                                                                 {"layer/0/add/output", floats({2, 4}, 0)},
                                                                 {"layer/1/relu/output", good}})),
                 "'add'"));
  CHECK(contains(message_of<ShapeMismatch>(graph, write(folder, {{"input/x", floats({2, 4}, 0)},
                                                                 {"layer/0/add/output", good},
                                                                 {"layer/1/relu/output", good}})),
                 "'x'"));
  const StoredTensor integers = StoredTensor::from(Tensor<std::int64_t>({2, 3}));
  CHECK(contains(
      message_of<ShapeMismatch>(
          graph, write(folder, {{"input/x", x}, {"layer/0/add/output", integers}, {"layer/1/relu/output", good}})),
      "int64"));
  const Tensors fine = {{"input/x", x}, {"layer/0/add/output", good}, {"layer/1/relu/output", good}};
  CHECK(contains(message_of<InvalidArgument>(graph, write(folder, fine, {{"model_sha256", std::string(64, 'b')}})),
                 "another model"));
  CHECK(contains(message_of<Unsupported>(graph, write(folder, fine, {{"driftbound.trace", "2"}})), "version"));
  CHECK(contains(message_of<ParseError>(graph, write(folder, fine, {{"arithmetic", "{"}})), "arithmetic"));
  CHECK(contains(message_of<ParseError>(graph, write(folder, fine, {{"provenance", "[]"}})), "provenance"));
  for (const char* batch : {R"({"batch": -1})", R"({"batch": 1.5})", R"({"batch": "4"})", R"({"batch": 1e30})",
                            R"({"batch": 18446744073709551615})"})
    CHECK(contains(message_of<ParseError>(graph, write(folder, fine, {{"provenance", batch}})), "batch"));
  for (const char* effect : {R"({"observer_effect": "maybe"})", R"({"observer_effect": 1})"})
    CHECK(contains(message_of<ParseError>(graph, write(folder, fine, {{"provenance", effect}})), "observer_effect"));
  CHECK_THROWS_AS(read_trace(graph, hash, folder / "missing"), FileError);
}

TEST_CASE("a trace cut short anywhere, or with any byte of its header wrong, does no harm") {
  const TemporaryFolder folder;
  write_trace(batched_trace(), folder / "good");
  const std::string good = read_file(folder / "good");
  const Graph graph = batched_graph();
  for (std::size_t length = 0; length < good.size(); length += length < 64 ? 1 : 7) {
    CAPTURE(length);
    CHECK_THROWS_AS(read_trace(graph, hash, write_anew(folder, "cut", good.substr(0, length))), Error);
  }
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x15);
    const auto file = write_anew(folder, "bad", bad);
    CHECK(refuses_or([&] { return read_trace(graph, hash, file).layers.size() == 5; }));
  }
}

TEST_CASE("an unwritable trace is a FileError and leaves nothing behind") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_trace(batched_trace(), folder / "missing/t.safetensors"), FileError);
  CHECK_THROWS_AS(write_trace(batched_trace(), folder.path()), FileError);
  CHECK(std::filesystem::is_empty(folder.path()));
}
