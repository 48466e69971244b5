// What bounds by two trajectories cost on bundled networks, in products of the forward pass by Eigen:
//   shadow/*      this run: the network in double and radii for every value; against the products in float
//   any-order/*   every run: that, radii of any run, and the adjoint of one scalar; against the products in double
#include <Eigen/Dense>
#include <filesystem>
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

/// Every product of a layer with its weights, on the values that the run recorded.
template <class Real>
class Products {
public:
  Products(const Graph& graph, const Inputs& inputs, const Trace& trace) {
    for (const Node& node : graph.nodes) {
      if (!std::holds_alternative<op::Gemm>(node.op)) continue;
      const auto producer = graph.producer(node.inputs[0]);
      x_.push_back(
          matrix(producer ? trace.layers[*producer].output.to_double() : inputs.tensors[0].second.to_double(), false));
      w_.push_back(matrix(graph.value(node.inputs[1]).constant.to_double(), std::get<op::Gemm>(node.op).transpose_b));
    }
  }
  void operator()() {
    for (std::size_t layer = 0; layer < x_.size(); ++layer) {
      y_.noalias() = x_[layer] * w_[layer];
      sum_ += y_(0, 0);
    }
  }

private:
  static Matrix<Real> matrix(const Tensor<double>& tensor, bool transposed) {
    const Matrix<double> values =
        Eigen::Map<const Matrix<double>>(tensor.values.data(), tensor.shape[0], tensor.shape[1]);
    return transposed ? Matrix<Real>(values.transpose().cast<Real>()) : Matrix<Real>(values.cast<Real>());
  }
  std::vector<Matrix<Real>> x_, w_;
  Matrix<Real> y_;
  Real sum_ = 0;
};

void bench_model(const std::string& name, std::int64_t samples) {
  const Graph graph = load_model(std::filesystem::path(DRIFTBOUND_SOURCE_DIR) / "examples/models" / (name + ".onnx"));
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
  run({}, scalar);  // norms of weights are found once
  Products<float> in_float(graph, inputs, trace);
  Products<double> in_double(graph, inputs, trace);
  const std::string size = fmt::format("{}/{}/t1", name, samples);
  bench::print("adjoint", "shadow/" + size, "eigen-float-products",
               bench::medians(
                   7,
                   [&] {
                     run({true, false, false, 0}, {});
                   },
                   [&] { in_float(); }),
               1);
  bench::print("adjoint", "any-order/" + size, "eigen-double-products",
               bench::medians(
                   7,
                   [&] {
                     run({false, true, false, 0}, scalar);
                   },
                   [&] { in_double(); }),
               1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  if (quick) return bench_model("oscillator_d2_w16", 4), 0;
  for (const char* name : {"oscillator_d8_w64", "oscillator_d4_w256", "torus_sdf_softplus", "siren"})
    bench_model(name, 256);
}
