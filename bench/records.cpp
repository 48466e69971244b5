// What judging a recorded call costs, in runs of the same op by float32 operations in a declared order:
//   whole/*   every element of the result
//   audit/*   2000 elements, drawn at random
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "analysis/judge_records.hpp"
#include "bench/timing.hpp"
#include "cli/keep_memory.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/recorded_call.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace driftbound;

StoredTensor normal(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> draw;
  Tensor<float> tensor(shape);
  for (float& x : tensor.values) x = draw(random);
  return StoredTensor::from(tensor);
}

void bench_call(const std::string& op, const std::string& sizes, const std::vector<Shape>& shapes,
                const nlohmann::json& attributes, int runs) {
  RecordedCall call{op, 21, {}, {}};
  test::RecordingWriter writer;
  test::RecordingWriter::Ids ids;
  Inputs inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const StoredTensor tensor = normal(shapes[i], i + 1);
    ids.push_back(fmt::format("x{}", i));
    writer.value(*ids.back(), tensor);
    call.operands.push_back(CallOperand{tensor.type(), tensor.shape(), [tensor] { return tensor; }});
  }
  for (const auto& item : attributes.items()) {
    Attribute attribute;
    if (item.value().is_boolean()) attribute.value = item.value().get<bool>();
    if (item.value().is_number()) attribute.value = item.value().get<double>();
    if (item.value().is_array()) {
      Attribute::List list;
      for (const auto& element : item.value()) list.push_back({element.get<std::int64_t>()});
      attribute.value = std::move(list);
    }
    call.attributes.emplace(item.key(), attribute);
  }
  const CallMeaning meaning = meaning_of(call);
  for (std::size_t i = 0; i < meaning.slots.size(); ++i)
    inputs.tensors.emplace_back(meaning.graph.value(meaning.graph.inputs[i]).name,
                                call.operands[meaning.slots[i]]->numbers());
  Graph graph = meaning.graph;
  graph.outputs = {meaning.results.front().value()};
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  StoredTensor result = evaluator.run(graph, inputs).layers.back().output;
  const std::vector<Shape> inferred = infer_shapes(graph, [&] {
    std::vector<Shape> given;
    for (const std::size_t slot : meaning.slots) given.push_back(call.operands[slot]->shape);
    return given;
  }());
  writer.value("y", StoredTensor(result.type(), inferred[graph.outputs.front()], result.bytes(),
                                 std::make_shared<const StoredTensor>(result)));
  writer.record(op, ids, {"y"}, attributes);
  const test::TemporaryFolder folder;
  writer.write(folder / "run.safetensors");
  const RecordedRun run(folder / "run.safetensors");
  const auto evaluate = [&] { (void)evaluator.run(graph, inputs); };
  const auto time = [&](const char* what, std::int64_t draws) {
    bench::print("records", fmt::format("{}/{}/{}/t1", what, op.substr(op.rfind(':') + 1), sizes), "evaluate",
                 bench::medians(
                     runs,
                     [&] {
                       (void)analysis::judge_records(run, {}, {draws, 1});
                     },
                     evaluate, bench::cpu_seconds_of),
                 1);
  };
  time("whole", 0);
  time("audit", 2000);
}

}  // namespace

int main(int argc, char** argv) {
  cli::keep_memory();
  const bool is_quick = argc > 1 && std::string(argv[1]) == "--quick";
  const std::int64_t rows = is_quick ? 4 : 256, width = is_quick ? 16 : 768;
  const int runs = is_quick ? 1 : 5;
  bench_call("aten::addmm", fmt::format("{}x{}x{}", rows, width, width), {{width}, {rows, width}, {width, width}}, {},
             runs);
  bench_call("aten::native_layer_norm", fmt::format("{}x{}", rows, width), {{rows, width}, {width}, {width}},
             {{"normalized_shape", {width}}, {"eps", 1e-5}}, runs);
  bench_call("aten::gelu", fmt::format("{}x{}", rows, width), {{rows, width}}, nlohmann::json::object(), runs);
  bench_call("aten::scaled_dot_product_attention", fmt::format("12x{}x64", rows),
             {{1, 12, rows, 64}, {1, 12, rows, 64}, {1, 12, rows, 64}}, {{"is_causal", true}}, runs);
}
