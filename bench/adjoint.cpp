// What bounds by two trajectories cost, in whole forward passes by Eigen (products, biases, functions):
//   shadow/*      this run: the network in double and radii for every value; against a pass in float
//   any-order/*   every run: that, radii of any run, and the adjoint of one scalar; against a pass in double
//   function/*    the same of a dense network with another function, against the network with Tanh
#include <filesystem>
#include <functional>
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

/// A run of a network in float32, and what its bounds by two trajectories are asked for.
class RunOf {
public:
  RunOf(const Graph& graph, const Inputs& inputs, std::int64_t samples)
      : trace_(cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"))).run(graph, inputs)),
        program_(graph, {inputs.tensors.front().second.shape()}, samples) {
    setting_.arithmetic = &trace_.arithmetic;
    setting_.machine = bounds::machine_of(trace_.arithmetic);
    setting_.is_own_run = true;
    for (const LayerTrace& layer : trace_.layers) layers_.push_back(layer.output.to_double());
    for (const Tensor<double>& layer : layers_) block_.layers.push_back(&layer);
    block_.given = block_.used = {inputs.tensors.front().second.to_double()};
    block_.input_error = {{}};
  }

  void bound_this_run() { bound(true, {}); }
  void bound_any_order() { bound(false, {{{0, 0}, std::nullopt}}); }

private:
  void bound(bool this_run, const std::vector<Target>& targets) {
    bounds::AdjointRequest request;
    request.this_run = this_run;
    request.any_order = !this_run;
    request.declared_order = request.rounded = false;
    (void)bounds::block_bounds(program_, block_, targets, request, setting_, cache_);
  }

  Trace trace_;
  Program program_;
  bounds::Setting setting_;
  std::vector<Tensor<double>> layers_;
  bounds::RecordedBlock block_;
  bounds::BoundCache cache_;
};

Inputs inputs_of(const Graph& graph, std::int64_t samples) {
  InputGenerator generator;
  generator.samples = samples;
  return generate_inputs(graph, generator);
}

/// `any_order_runs`: 0: not timed.
void bench_graph(const std::string& name, const Graph& graph, std::int64_t samples, int any_order_runs) {
  const Inputs inputs = inputs_of(graph, samples);
  RunOf run(graph, inputs, samples);
  if (any_order_runs > 0) run.bound_any_order();  // norms of weights are found once, as are plans
  run.bound_this_run();
  Forward<float> in_float(graph, inputs);
  Forward<double> in_double(graph, inputs);
  const std::string size = fmt::format("{}/{}/t1", name, samples);
  bench::print("adjoint", "shadow/" + size, "eigen-forward-float",
               bench::medians(
                   25, [&] { run.bound_this_run(); }, in_float, bench::cpu_seconds_of),
               1);
  if (any_order_runs > 0)
    bench::print("adjoint", "any-order/" + size, "eigen-forward-double",
                 bench::medians(
                     any_order_runs, [&] { run.bound_any_order(); }, in_double, bench::cpu_seconds_of),
                 1);
}

using Function = std::function<ValueId(bench::RandomGraph&, ValueId)>;

/// Hidden layers of one width with a function behind each.
Graph dense(std::int64_t width, int layers, const Function& function) {
  bench::RandomGraph make(11);
  ValueId x = make.input({3});
  for (int layer = 0; layer < layers; ++layer) x = function(make, make.linear(x, layer == 0 ? 3 : width, width));
  return make.with_output(make.linear(x, width, 1));
}

/// Bounds of every run of the same network with another function, next to Tanh.
void bench_functions(std::int64_t width, int layers, std::int64_t samples, int runs) {
  const auto one = [](const Op& op) {
    return [op](bench::RandomGraph& make, ValueId x) { return make.node(op, {x}); };
  };
  const std::vector<std::pair<std::string, Function>> functions = {
      {"relu", one(op::Relu{})},
      {"leaky_relu", one(op::LeakyRelu{})},
      {"sigmoid", one(op::Sigmoid{})},
      {"elu", one(op::Elu{})},
      {"cos", one(op::Cos{})},
      {"erf", one(op::Erf{})},
      {"hard_swish", one(op::HardSwish{})},
      {"softplus", one(op::Softplus{})},
      {"clip", one(op::Clip{-1.0, 1.0})},
      {"swish", one(op::Swish{})},
      {"softmax", one(op::Softmax{1})},
      {"max", [&](bench::RandomGraph& make, ValueId x) {
         return make.node(op::Max{}, {x, make.constant({width}, -0.1, 0.0)});
       }}};
  const Graph tanh = dense(width, layers, one(op::Tanh{}));
  RunOf of_tanh(tanh, inputs_of(tanh, samples), samples);
  of_tanh.bound_any_order();
  for (const auto& [name, function] : functions) {
    const Graph graph = dense(width, layers, function);
    RunOf run(graph, inputs_of(graph, samples), samples);
    run.bound_any_order();
    bench::print("adjoint", fmt::format("function/{}/{}/t1", name, samples), "tanh",
                 bench::medians(
                     runs, [&] { run.bound_any_order(); }, [&] { of_tanh.bound_any_order(); }, bench::cpu_seconds_of),
                 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  if (quick) {
    bench_graph("oscillator_d2_w16", bundled("oscillator_d2_w16"), 4, 3);
    bench_functions(8, 2, 4, 3);
    return 0;
  }
  if (argc > 1) return bench_graph(std::filesystem::path(argv[1]).stem(), load_model(argv[1]), 256, 5), 0;
  for (const char* name : {"oscillator_d8_w64", "oscillator_d4_w256", "torus_sdf_softplus", "siren"})
    bench_graph(name, bundled(name), 256, 15);
  for (const char* name :
       {"mlp_2_10_10_2", "sphere_cut_sdf_relu", "oscillator_d2_w16", "oscillator_d4_w16", "oscillator_d8_w16",
        "oscillator_d2_w64", "oscillator_d4_w64", "oscillator_d2_w128", "oscillator_d4_w128", "oscillator_d8_w128"})
    bench_graph(name, bundled(name), 256, 0);
  bench_graph("resnet8x512", residual_network(8, 512), 256, 3);
  bench_functions(256, 8, 64, 5);
}
