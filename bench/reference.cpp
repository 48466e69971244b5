// What certified references cost, in whole forward passes in float32 by Eigen:
//   accumulated/*   the exact network on the inputs
//   local/*         every layer's exact function on what a run recorded
// Blocks of 64 samples, as a report takes them; weights are packed and their norms found before. The end of a name says
// how many of the elements needed more than double-double, where any did.
#include "driftbound/reference/reference.hpp"

#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"

namespace {

using namespace driftbound;

std::string open_elements(const std::vector<Reference>& references) {
  std::int64_t open = 0;
  for (const Reference& reference : references) {
    open += reference.undecided;
    for (const auto& [bits, elements] : reference.rungs) open += bits == 106 ? 0 : elements;
  }
  return open == 0 ? "" : fmt::format("/{}-open", open);
}

void bench_graph(const std::string& name, const Graph& graph, std::int64_t samples, int runs) {
  constexpr std::int64_t block = 64;
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"))).run(graph, inputs);
  const BatchLayout layout = batch_layout(graph);
  std::vector<Trace> blocks;
  for (std::int64_t first = 0; first < samples; first += block)
    blocks.push_back(slice(graph, layout, trace, first, std::min(block, samples - first)));

  const ReferenceMaker maker(graph);
  std::vector<Reference> references(blocks.size());
  const auto accumulated = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) references[i] = maker.accumulated(blocks[i].inputs, {}, &blocks[i]);
  };
  const auto local = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) references[i] = maker.local(blocks[i]);
  };
  bench::Forward<float> forward(graph, inputs);
  const auto time = [&](const std::string& which, const std::function<void()>& work) {
    work();
    const bench::Timing timing = bench::medians(runs, work, forward, bench::cpu_seconds_of);
    bench::print("reference", fmt::format("{}/{}/{}/t1", which, name, samples) + open_elements(references),
                 "eigen-forward-float", timing, 1);
  };
  time("accumulated", accumulated);
  time("local", local);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argument == "--quick") return bench_graph("oscillator_d2_w16", bench::bundled("oscillator_d2_w16"), 4, 1), 0;
  if (!argument.empty()) return bench_graph(std::filesystem::path(argument).stem(), load_model(argument), 200, 5), 0;
  bench_graph("resnet8x512", bench::residual_network(8, 512), 256, 5);
  bench_graph("resnet8x1024", bench::residual_network(8, 1024), 256, 3);
  for (const char* name : {"oscillator_d8_w64", "torus_sdf_softplus", "siren"})
    bench_graph(name, bench::bundled(name), 256, 3);
}
