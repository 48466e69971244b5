// What the foundation costs, as ratios within one run (docs/performance.md names the cases):
//   evaluate/*     our product in a declared order, against Eigen's sgemm of the same sizes
//   reference/*    certified balls of a whole network, against an MPFR loop over the same products
//   report/*       judging a run, against evaluating it
//   enclosed/*     10000 values of a function in double with their errors, against intervals and against libm
//   transposed/*   one step of the adjoint through a Gemm with its defects, against the product forward
#include <fmt/format.h>
#include <mpfr.h>

#include <Eigen/Dense>
#include <string>
#include <vector>

#include "analysis/judge.hpp"
#include "bench/timing.hpp"
#include "bounds/nodes/transpose.hpp"
#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/reference/reference.hpp"
#include "linalg/ordered_product.hpp"
#include "num/enclosed.hpp"

namespace {

using namespace driftbound;

using bench::medians;
using bench::Timing;

void print(const std::string& name, const std::string& against, Timing timing, int threads) {
  bench::print("foundation", name, against, timing, threads);
}

Tensor<float> random_tensor(Shape shape, std::uint64_t seed, float scale) {
  Tensor<float> tensor(std::move(shape));
  std::uint64_t state = seed;
  for (float& value : tensor.values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = scale * (static_cast<float>(state >> 40U) * 0x1p-23F - 1.0F);
  }
  return tensor;
}

/// input -> width, `depth` residual blocks h + relu(W h + b), width -> 2
Graph residual_network(std::int64_t depth, std::int64_t width) {
  Graph graph;
  std::uint64_t seed = 1;
  const auto dense = [&](const std::string& name, ValueId x, std::int64_t in, std::int64_t out) {
    const float scale = 1.5F / std::sqrt(static_cast<float>(in));
    const ValueId w = graph.add_constant(name + ".W", StoredTensor::from(random_tensor({in, out}, ++seed, scale)));
    const ValueId b = graph.add_constant(name + ".b", StoredTensor::from(random_tensor({out}, ++seed, 0.1F)));
    return graph.add_node(name, op::Gemm{}, {x, w, b});
  };
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {3, ""}});
  ValueId h = graph.add_node("stem.relu", op::Relu{}, {dense("stem", x, 3, width)});
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::string name = "block" + std::to_string(i);
    h = graph.add_node(name + ".add", op::Add{},
                       {h, graph.add_node(name + ".relu", op::Relu{}, {dense(name, h, width, width)})});
  }
  graph.outputs = {dense("head", h, width, 2)};
  return graph;
}

void bench_evaluate(std::int64_t n) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {n, ""}});
  const Tensor<float> w = random_tensor({n, n}, 3, 1.0F), data = random_tensor({n, n}, 4, 1.0F);
  graph.outputs = {graph.add_node("product", op::MatMul{}, {x, graph.add_constant("w", StoredTensor::from(w))})};
  Inputs inputs;
  inputs.tensors.emplace_back("x", StoredTensor::from(data));
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> a(data.values.data(), n, n), b(w.values.data(), n, n);
  Matrix c(n, n);
  const Timing timing = medians(
      9, [&] { (void)evaluator.run(graph, inputs); }, [&] { c.noalias() = a * b; });
  print(fmt::format("evaluate/{0}x{0}x{0}/t1", n), "eigen-sgemm", timing, 1);
}

void bench_transposed(std::int64_t n) {
  const auto doubles = [&](std::uint64_t seed) {
    return StoredTensor::from(random_tensor({n, n}, seed, 1.0F)).to_double();
  };
  const Tensor<double> x = doubles(5), w = doubles(6), d = doubles(7);
  Node node;
  node.name = "gemm";
  node.op = op::Gemm{};
  bounds::NodeView view;
  view.node = &node;
  view.inputs = {&x, &w};
  view.output = &d;
  bounds::Setting setting;
  const ProductPlan plan = plan_product(op::Gemm{}, x.shape, w.shape);
  PackedMatrices<double> packed;
  pack_missing(plan, w, packed);
  const SummationOrder order{SummationOrder::Kind::sequential, 0, true};
  const Timing timing = medians(
      51,
      [&] {
        (void)bounds::transposed(view, {}, d.values, {true, false}, setting);
      },
      [&] { (void)multiply(plan, x, packed, order, 1); });
  print(fmt::format("transposed/{0}x{0}x{0}/t1", n), "product-f64", timing, 1);
}

void mpfr_product_loop(const Graph& graph, const Trace& trace) {
  mpfr_t sum, term;
  mpfr_inits2(128, sum, term, static_cast<mpfr_ptr>(nullptr));
  for (const Node& node : graph.nodes) {
    if (!std::holds_alternative<op::Gemm>(node.op)) continue;
    const auto producer = graph.producer(node.inputs[0]);
    const Tensor<double> x =
        producer ? trace.layers[*producer].output.to_double() : trace.inputs.tensors[0].second.to_double();
    const Tensor<double> w = graph.value(node.inputs[1]).constant.to_double();
    const auto k = static_cast<std::size_t>(w.shape[0]), n = static_cast<std::size_t>(w.shape[1]);
    for (std::size_t i = 0; i < x.size() / k; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        mpfr_set_zero(sum, 1);
        for (std::size_t l = 0; l < k; ++l) {
          mpfr_set_d(term, x.values[i * k + l], MPFR_RNDN);
          mpfr_mul_d(term, term, w.values[l * n + j], MPFR_RNDN);
          mpfr_add(sum, sum, term, MPFR_RNDN);
        }
      }
  }
  mpfr_clears(sum, term, static_cast<mpfr_ptr>(nullptr));
}

void bench_network(std::int64_t depth, std::int64_t width, std::int64_t samples) {
  const Graph graph = residual_network(depth, width);
  InputGenerator generator;
  generator.samples = samples;
  const Inputs inputs = generate_inputs(graph, generator);
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  const Trace trace = evaluator.run(graph, inputs);
  const std::string size = fmt::format("resnet{}x{}/{}/t1", depth, width, samples);
  print("reference/" + size, "mpfr-loop-128",
        medians(
            5, [&] { (void)certified_reference(graph, inputs, {}, &trace); }, [&] { mpfr_product_loop(graph, trace); }),
        1);
  print("bounds/" + size, "evaluate",
        medians(
            5, [&] { (void)bound(graph, trace); }, [&] { (void)evaluator.run(graph, inputs); }),
        1);
  print("report/" + size, "evaluate",
        medians(
            3, [&] { (void)analysis::judge(graph, trace, {}); }, [&] { (void)evaluator.run(graph, inputs); }),
        1);
}

/// Adds up f over arguments in [-8, 8], so that nothing is optimised away.
template <class F>
double total(const std::vector<double>& arguments, F f) {
  double sum = 0.0;
  for (const double x : arguments) sum += f(x);
  return sum;
}

void bench_enclosed(std::size_t count) {
  struct Function {
    const char* name;
    Enclosed (*ours)(double);
    Interval (*interval)(const Interval&);
    double (*libm)(double);
  };
  const Function functions[] = {{"exp", enclosed_exp, exp, std::exp},
                                {"tanh", enclosed_tanh, tanh, std::tanh},
                                {"sin", enclosed_sin, sin, std::sin},
                                {"erf", enclosed_erf, erf, std::erf}};
  const Tensor<float> drawn = random_tensor({static_cast<std::int64_t>(count)}, 5, 8.0F);
  const std::vector<double> x(drawn.values.begin(), drawn.values.end());
  volatile double sink = 0.0;
  for (const Function& f : functions) {
    const auto ours = [&] { sink = total(x, [&](double t) { return f.ours(t).error; }); };
    const auto interval = [&] { sink = total(x, [&](double t) { return f.interval(Interval(t)).upper(); }); };
    const auto libm = [&] { sink = total(x, f.libm); };
    print(std::string("enclosed/") + f.name, "interval", medians(9, ours, interval), 1);
    print(std::string("enclosed/") + f.name, "libm", medians(9, ours, libm), 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  bench_evaluate(quick ? 32 : 512);
  bench_transposed(quick ? 32 : 256);
  bench_enclosed(quick ? 100 : 10000);
  quick ? bench_network(1, 8, 4) : bench_network(8, 64, 256);
}
