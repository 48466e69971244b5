// What bounds by two trajectories cost, in whole forward passes by Eigen (products, biases, functions):
//   shadow/*      this run: the network in double and radii for every value; against a pass in float
//   any-order/*   every run: that, radii of any run, and the adjoint of one scalar; against a pass in double
#include <filesystem>
#include <string>
#include <vector>

#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "bounds/blocks/block_bounds.hpp"
#include "driftbound/evaluate/evaluator.hpp"

namespace {

using namespace driftbound;
using bench::bundled;
using bench::Forward;
using bench::residual_network;

/// `any_order_runs`: 0: not timed.
void bench_graph(const std::string& name, const Graph& graph, std::int64_t samples, int any_order_runs) {
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"))).run(graph, inputs);

  bounds::Setting setting;
  setting.arithmetic = &trace.arithmetic;
  setting.machine = bounds::machine_of(trace.arithmetic);
  setting.is_own_run = true;
  std::vector<Tensor<double>> layers;
  for (const LayerTrace& layer : trace.layers) layers.push_back(layer.output.to_double());
  bounds::RecordedBlock block;
  for (const Tensor<double>& layer : layers) block.layers.push_back(&layer);
  block.given = block.used = {inputs.tensors.front().second.to_double()};
  block.input_error = {{}};
  const Program program(graph, {block.given.front().shape}, samples);
  bounds::BoundCache cache;
  const auto run = [&](bounds::AdjointRequest request, const std::vector<Target>& targets) {
    (void)bounds::block_bounds(program, block, targets, request, setting, cache);
  };
  const std::vector<Target> scalar = {{{0, 0}, std::nullopt}};
  bounds::AdjointRequest this_run, any_order;
  this_run.any_order = this_run.declared_order = this_run.rounded = false;
  any_order.this_run = any_order.declared_order = any_order.rounded = false;
  if (any_order_runs > 0) run(any_order, scalar);  // norms of weights are found once, as are plans
  run(this_run, {});
  Forward<float> in_float(graph, inputs);
  Forward<double> in_double(graph, inputs);
  const std::string size = fmt::format("{}/{}/t1", name, samples);
  bench::print("adjoint", "shadow/" + size, "eigen-forward-float",
               bench::medians(
                   25, [&] { run(this_run, {}); }, in_float, bench::cpu_seconds_of),
               1);
  if (any_order_runs > 0)
    bench::print("adjoint", "any-order/" + size, "eigen-forward-double",
                 bench::medians(
                     any_order_runs, [&] { run(any_order, scalar); }, in_double, bench::cpu_seconds_of),
                 1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  if (quick) return bench_graph("oscillator_d2_w16", bundled("oscillator_d2_w16"), 4, 3), 0;
  if (argc > 1) return bench_graph(std::filesystem::path(argv[1]).stem(), load_model(argv[1]), 256, 5), 0;
  for (const char* name : {"oscillator_d8_w64", "oscillator_d4_w256", "torus_sdf_softplus", "siren"})
    bench_graph(name, bundled(name), 256, 15);
  for (const char* name :
       {"mlp_2_10_10_2", "sphere_cut_sdf_relu", "oscillator_d2_w16", "oscillator_d4_w16", "oscillator_d8_w16",
        "oscillator_d2_w64", "oscillator_d4_w64", "oscillator_d2_w128", "oscillator_d4_w128", "oscillator_d8_w128"})
    bench_graph(name, bundled(name), 256, 0);
  bench_graph("resnet8x512", residual_network(8, 512), 256, 3);
}
