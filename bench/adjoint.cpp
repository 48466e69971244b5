// What bounds by two trajectories cost, in whole forward passes by Eigen (products, biases, functions):
//   shadow/*      this run: the network in double and radii for every value; against a pass in float
//   any-order/*   every run: that, radii of any run, and the adjoint of one scalar; against a pass in double
#include <Eigen/Dense>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/timing.hpp"
#include "bounds/adjoint/block_bounds.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"

namespace {

using namespace driftbound;

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The whole forward pass of a graph of Gemm, Relu and the like, by Eigen: products, biases and functions.
template <class Real>
class Forward {
public:
  Forward(const Graph& graph, const Inputs& inputs) : graph_(graph), values_(graph.values.size()) {
    values_[graph.inputs[0]] = matrix(inputs.tensors.front().second.to_double());
    for (ValueId id = 0; id < graph.values.size(); ++id) {
      if (graph.is_constant(id)) values_[id] = matrix(graph.value(id).constant.to_double());
    }
    for (const Node& node : graph.nodes) {
      const auto* gemm = std::get_if<op::Gemm>(&node.op);
      if (gemm != nullptr && gemm->transpose_b) weights_[node.inputs[1]] = values_[node.inputs[1]].transpose();
      if (gemm != nullptr && !gemm->transpose_b) weights_[node.inputs[1]] = values_[node.inputs[1]];
    }
  }

  void operator()() {
    for (const Node& node : graph_.nodes) evaluate(node, values_[node.output]);
    sum_ += values_[graph_.outputs[0]](0, 0);
  }

private:
  static Matrix<Real> matrix(const Tensor<double>& tensor) {
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    const auto rows = static_cast<std::int64_t>(tensor.size()) / columns;
    return Eigen::Map<const Matrix<double>>(tensor.values.data(), rows, columns).template cast<Real>();
  }

  void evaluate(const Node& node, Matrix<Real>& y) {
    const Matrix<Real>& x = values_[node.inputs[0]];
    if (std::holds_alternative<op::Gemm>(node.op)) {
      y.noalias() = x * weights_.at(node.inputs[1]);
      if (node.inputs.size() > 2) y.rowwise() += values_[node.inputs[2]].row(0);
    } else if (std::holds_alternative<op::Relu>(node.op)) {
      y = x.cwiseMax(Real(0));
    } else if (std::holds_alternative<op::Softplus>(node.op)) {
      y = x.array().max(Real(0)) + (-x.array().abs()).exp().log1p();
    } else if (std::holds_alternative<op::Tanh>(node.op)) {
      y = x.array().tanh();
    } else if (std::holds_alternative<op::Sin>(node.op)) {
      y = x.array().sin();
    } else if (std::holds_alternative<op::Softmax>(node.op)) {
      y = (x.colwise() - x.rowwise().maxCoeff()).array().exp();
      y.array().colwise() /= y.array().rowwise().sum().eval();
    } else if (std::holds_alternative<op::Add>(node.op)) {
      y = x + values_[node.inputs[1]];
    } else if (std::holds_alternative<op::Mul>(node.op)) {
      const Matrix<Real>& b = values_[node.inputs[1]];
      y = b.size() == 1 ? Matrix<Real>(x * b(0, 0)) : Matrix<Real>(b * x(0, 0));
    } else {
      throw std::invalid_argument("bench: no Eigen for " + std::string(name_of(node.op)));
    }
  }

  const Graph& graph_;
  std::vector<Matrix<Real>> values_;
  std::map<ValueId, Matrix<Real>> weights_;
  Real sum_ = 0;
};

/// x + W relu(V x + b) + c, `blocks` times, weights as they are after training: entries of 1 / root of the width, W's
/// smaller.
Graph residual_network(std::int64_t blocks, std::int64_t width) {
  std::mt19937_64 generator(8);
  const auto weights = [&](std::int64_t k, std::int64_t n, double scale) {
    std::normal_distribution<double> normal(0.0, scale / std::sqrt(static_cast<double>(k)));
    Tensor<float> w({n, k});
    for (float& x : w.values) x = static_cast<float>(normal(generator));
    return w;
  };
  Graph graph;
  const op::Gemm gemm{1.0, 1.0, false, true};
  int next = 0;
  const auto layer = [&](ValueId x, std::int64_t k, std::int64_t n, double scale) {
    const std::string name = std::to_string(next++);
    const ValueId w = graph.add_constant("w" + name, StoredTensor::from(weights(k, n, scale)));
    Tensor<float> bias = weights(n, 1, 0.1);
    bias.shape = {n};
    const ValueId b = graph.add_constant("b" + name, StoredTensor::from(bias));
    return graph.add_node("gemm" + name, gemm, {x, w, b});
  };
  ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {8, ""}});
  x = layer(x, 8, width, 1.0);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::string name = std::to_string(block);
    const ValueId hidden = graph.add_node("relu" + name, op::Relu{}, {layer(x, width, width, 0.8)});
    x = graph.add_node("add" + name, op::Add{}, {x, layer(hidden, width, width, 0.2)});
  }
  graph.outputs = {layer(x, width, 2, 1.0)};
  return graph;
}

/// `any_order_runs`: 0: not timed.
void bench_graph(const std::string& name, const Graph& graph, std::int64_t samples, int any_order_runs) {
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma"))).run(graph, inputs);

  bounds::Setting setting;
  setting.arithmetic = &trace.arithmetic;
  setting.machine = bounds::machine_of(trace.arithmetic);
  setting.rules = &bounds::default_rules();
  setting.is_own_run = true;
  std::vector<Tensor<double>> layers;
  for (const LayerTrace& layer : trace.layers) layers.push_back(layer.output.to_double());
  bounds::RecordedBlock block;
  for (const Tensor<double>& layer : layers) block.layers.push_back(&layer);
  block.given = block.used = {inputs.tensors.front().second.to_double()};
  block.input_error = {{}};
  const bounds::Network network(graph, {block.given.front().shape}, samples);
  bounds::Weights weights;
  const auto run = [&](bounds::AdjointQuestion question, const std::vector<Target>& targets) {
    (void)bounds::block_bounds(network, block, targets, question, setting, weights);
  };
  const std::vector<Target> scalar = {{{0, 0}, std::nullopt}};
  bounds::AdjointQuestion this_run, any_order;
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

Graph bundled(const std::string& name) {
  return load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx"));
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  if (quick) return bench_graph("oscillator_d2_w16", bundled("oscillator_d2_w16"), 4, 3), 0;
  for (const char* name : {"oscillator_d8_w64", "oscillator_d4_w256", "torus_sdf_softplus", "siren"})
    bench_graph(name, bundled(name), 256, 15);
  for (const char* name :
       {"mlp_2_10_10_2", "sphere_cut_sdf_relu", "oscillator_d2_w16", "oscillator_d4_w16", "oscillator_d8_w16",
        "oscillator_d2_w64", "oscillator_d4_w64", "oscillator_d2_w128", "oscillator_d4_w128", "oscillator_d8_w128"})
    bench_graph(name, bundled(name), 256, 0);
  bench_graph("resnet8x512", residual_network(8, 512), 256, 3);
}
