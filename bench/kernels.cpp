// What it costs to find out how a product was computed, and to compute it as a matrix unit does:
//   unit/*     a product by a simulated device: by its matrix unit, or in float32 as the threads of a warp add
//   search/*   the kernels of a family compared with a recorded product
//   probe/*    the tree and the arithmetic of a kernel, found by calls of it
#include <string>
#include <string_view>
#include <vector>

#include "bench/normal.hpp"
#include "bench/timing.hpp"
#include "driftbound/evaluate/kernel_search.hpp"
#include "driftbound/evaluate/probe.hpp"
#include "driftbound/trace/matrix_units.hpp"

namespace {

using namespace driftbound;

Evaluator declared_evaluator(const char* order) {
  return cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order(order)));
}

/// One product of normal numbers.
struct Product {
  ProductShape shape;
  Graph graph;
  Inputs inputs;

  explicit Product(const ProductShape& of) : shape(of), graph(product_graph(of)) {
    inputs.tensors.emplace_back("a", StoredTensor::from(bench::normal({of.m, of.k}, 1)));
    inputs.tensors.emplace_back("b", StoredTensor::from(bench::normal({of.k, of.n}, 2)));
  }
  std::string sizes() const { return fmt::format("{}x{}x{}", shape.m, shape.k, shape.n); }
};

void bench_unit(const Product& product, const char* device, const char* arithmetic, int runs) {
  const char* const order = std::string_view(arithmetic) == "fp32" ? "lanes:32x1/halves+fma" : "sequential";
  const Evaluator unit = cpu_evaluator(simulated_arithmetic(device, arithmetic, parse_summation_order(order)));
  const Evaluator plain = declared_evaluator("blocked:8+fma");
  const bench::Timing timing = bench::medians(
      runs, [&] { (void)unit.run(product.graph, product.inputs); },
      [&] { (void)plain.run(product.graph, product.inputs); }, bench::cpu_seconds_of);
  const double steps = static_cast<double>(product.shape.m * product.shape.k * product.shape.n);
  bench::print("kernels", fmt::format("unit/{}/{}/{}/t1", device, arithmetic, product.sizes()), "evaluate", timing, 1,
               {{"multiply_adds_per_second", steps / timing.ours}});
}

void bench_search(const Product& product, int runs) {
  const Evaluator plain = declared_evaluator("split-k:4+fma");
  Trace trace = plain.run(product.graph, product.inputs);
  double family = 0.0;
  const auto search = [&] {
    KernelSearch searched(product.graph, 0, 0);
    searched.add(trace);
    family = static_cast<double>(searched.finding().family);
  };
  const bench::Timing timing = bench::medians(
      runs, search, [&] { (void)plain.run(product.graph, product.inputs); }, bench::cpu_seconds_of);
  bench::print("kernels", fmt::format("search/{}/t1", product.sizes()), "evaluate", timing, 1, {{"family", family}});
}

void bench_probe(const Product& product, int runs) {
  const Evaluator plain = declared_evaluator("split-k:4+fma");
  const ProductCall call = product_call(plain);
  double calls = 0.0;
  const auto probe = [&] { calls = static_cast<double>(probe_product(call, product.shape).calls); };
  const bench::Timing timing = bench::medians(
      runs, probe, [&] { (void)plain.run(product.graph, product.inputs); }, bench::cpu_seconds_of);
  bench::print("kernels", fmt::format("probe/{}/t1", product.sizes()), "evaluate", timing, 1, {{"calls", calls}});
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_quick = argc > 1 && std::string(argv[1]) == "--quick";
  const int runs = is_quick ? 1 : 5;
  const std::int64_t size = is_quick ? 16 : 256;
  const Product square({size, size, size});
  for (const auto& [device, arithmetic] :
       {std::pair("h100", "tf32"), std::pair("h100", "bf16"), std::pair("h100", "fp8_e4m3"), std::pair("a100", "tf32"),
        std::pair("h100", "fp32")})
    bench_unit(square, device, arithmetic, runs);
  for (const std::int64_t k : is_quick ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{64, 1024, 8192})
    bench_search(Product({64, k, 64}), runs);
  bench_probe(Product({size, 2 * size, 8}), runs);
}
