// What certified references cost, in whole forward passes in float32 by Eigen:
//   accumulated/*   the exact network on the inputs
//   local/*         every layer's exact function on what a run recorded
//   coarse/*        outputs of the exact network alone, errors known to two digits
//   sharp/*         the exact network next to a run in float64, errors known to 2^-60 of a rounding
// Blocks of 64 samples, as a report takes them; weights are packed and their norms found before. Each line says beside:
//   open                how many of the elements needed more than double-double
//   radius_over_error   the largest radius of an output next to the largest error of the float32 run there
#include "driftbound/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"

namespace {

using namespace driftbound;

double open_elements(const std::vector<Reference>& references) {
  std::int64_t open = 0;
  for (const Reference& reference : references) {
    open += reference.undecided;
    for (const auto& [bits, elements] : reference.rungs) open += bits <= 106 ? 0 : elements;
  }
  return static_cast<double>(open);
}

double radius_over_error(const Graph& graph, const std::vector<Reference>& references, const std::vector<Trace>& runs) {
  double radius = 0.0, error = 0.0;
  for (std::size_t block = 0; block < runs.size(); ++block) {
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      if (std::count(graph.outputs.begin(), graph.outputs.end(), graph.nodes[node].output) == 0) continue;
      const std::vector<double> computed = runs[block].layers[node].output.to_double().values;
      for (std::size_t i = 0; i < computed.size(); ++i) {
        const Ball& ball = references[block].layers[node].values[i];
        radius = std::max(radius, ball.radius.value());
        error = std::max(error, std::fabs(computed[i] - ball.hi - ball.lo));
      }
    }
  }
  return radius == 0.0 ? 0.0 : radius / error;
}

/// Eigen's pass is one of the same network.
void require_same(const Trace& trace, bench::Forward<float>& forward) {
  const std::vector<double> ours = trace.layers.back().output.to_double().values;
  forward();
  const auto theirs = forward.output().reshaped<Eigen::RowMajor>();
  bool same = static_cast<std::size_t>(theirs.size()) == ours.size();
  for (std::size_t i = 0; same && i < ours.size(); ++i)
    same = std::fabs(ours[i] - static_cast<double>(theirs(static_cast<Eigen::Index>(i)))) <=
           1e-3 * (1.0 + std::fabs(ours[i]));
  if (!same) throw std::logic_error("bench: Eigen's forward pass is another network's");
}

void bench_graph(const std::string& name, const Graph& graph, std::int64_t samples, int runs,
                 bool with_others = false) {
  constexpr std::int64_t block = 64;
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const BatchLayout layout = batch_layout(graph);
  const auto run = [&](const char* arithmetic) {
    return cpu_evaluator(cpu_arithmetic(arithmetic, parse_summation_order("blocked:8+fma"))).run(graph, inputs);
  };
  const auto in_blocks = [&](const Trace& trace) {
    std::vector<Trace> blocks;
    for (std::int64_t first = 0; first < samples; first += block)
      blocks.push_back(slice(graph, layout, trace, first, std::min(block, samples - first)));
    return blocks;
  };
  const Trace trace = run("fp32");
  std::vector<Trace> blocks = in_blocks(trace);

  const ReferenceMaker maker(graph);
  std::vector<Reference> references(blocks.size());
  const auto accumulated = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) references[i] = maker.accumulated(blocks[i].inputs, {}, &blocks[i]);
  };
  const auto local = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) references[i] = maker.local(blocks[i]);
  };
  bench::Forward<float> forward(graph, inputs);
  require_same(trace, forward);
  const auto time = [&](const std::string& which, const std::function<void()>& work) {
    work();
    const bench::Timing timing = bench::medians(runs, work, forward, bench::cpu_seconds_of);
    bench::print(
        "reference", fmt::format("{}/{}/{}/t1", which, name, samples), "eigen-forward-float", timing, 1,
        {{"open", open_elements(references)}, {"radius_over_error", radius_over_error(graph, references, blocks)}});
  };
  time("accumulated", accumulated);
  time("local", local);
  if (!with_others) return;
  PrecisionPolicy coarse;
  coarse.outputs_only = true;
  coarse.error_ratio = coarse.of_rounding = 0x1p-7;
  time("coarse", [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      references[i] = maker.accumulated(blocks[i].inputs, coarse, &blocks[i]);
  });
  blocks = in_blocks(run("fp64"));
  PrecisionPolicy sharp;
  sharp.of_rounding = 0x1p-60;
  time("sharp", [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      references[i] = maker.accumulated(blocks[i].inputs, sharp, &blocks[i]);
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argument == "--quick") {
    bench_graph("oscillator_d2_w16", bench::bundled("oscillator_d2_w16"), 4, 1, true);
    bench_graph("conv6x4", bench::convolution_network(6, 4), 2, 1);
    return bench_graph("transformer1x8", bench::transformer({1, 3, 8, 2}), 2, 1), 0;
  }
  if (!argument.empty())
    return bench_graph(std::filesystem::path(argument).stem(), load_model(argument), 200, 5, true), 0;
  bench_graph("resnet8x512", bench::residual_network(8, 512), 256, 5, true);
  bench_graph("resnet8x1024", bench::residual_network(8, 1024), 256, 3);
  for (const char* name : {"oscillator_d8_w64", "torus_sdf_softplus", "siren"})
    bench_graph(name, bench::bundled(name), 256, 3);
  bench_graph("conv32x16", bench::convolution_network(32, 16), 16, 3);
  bench_graph("transformer12x128", bench::transformer({12, 16, 128, 4}), 1, 1);
}
