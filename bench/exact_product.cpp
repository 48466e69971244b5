// What exact products of float32 data cost, in products by a BLAS in double. The left operand (samples) is packed in
// the time measured, the right one (weights) before it; "packing" packs both. Every case also says how many elements
// were not certified exact.
#include "linalg/exact_product.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/timing.hpp"
#include "linalg/residue_product.hpp"

#ifdef DRIFTBOUND_WITH_OPENBLAS
#include <cblas.h>
#else
#include <Eigen/Dense>
#endif

namespace {

using namespace driftbound;
using namespace driftbound::linalg;

/// A B^T in double, row-major; name() says by whom.
#ifdef DRIFTBOUND_WITH_OPENBLAS
std::string name() {
  return std::string("openblas-") + openblas_get_corename();
}
void multiply(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c, int m, int n, int k) {
  if (m == 1) return cblas_dgemv(CblasRowMajor, CblasNoTrans, n, k, 1.0, b.data(), k, a.data(), 1, 0.0, c.data(), 1);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0, a.data(), k, b.data(), k, 0.0, c.data(), n);
}
#else
std::string name() {
  return "eigen-double";
}
void multiply(const std::vector<double>& a, const std::vector<double>& b, std::vector<double>& c, int m, int n, int k) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c.data(), m, n).noalias() =
      Eigen::Map<const Matrix>(a.data(), m, k) * Eigen::Map<const Matrix>(b.data(), n, k).transpose();
}
#endif

std::vector<float> normal(std::size_t size, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(size);
  for (float& x : values) x = distribution(generator);
  return values;
}

struct Data {
  std::size_t m, k, n;
  std::vector<float> a, b;
  std::vector<double> a_double, b_double, c;
  ExactProduct y;

  Data(std::size_t samples, std::size_t length, std::size_t outputs)
      : m(samples),
        k(length),
        n(outputs),
        a(normal(m * k, 1)),
        b(normal(n * k, 2)),
        a_double(a.begin(), a.end()),
        b_double(b.begin(), b.end()),
        c(m * n) {}

  ExactOperand left(int threads, const ExactKernels& kernels) const {
    return {{a.data(), m, k, static_cast<std::ptrdiff_t>(k), 1}, Side::left, threads, kernels};
  }
  ExactOperand right(int threads, const ExactKernels& kernels) const {
    return {{b.data(), n, k, static_cast<std::ptrdiff_t>(k), 1}, Side::right, threads, kernels};
  }
  void ours(const ExactOperand& weights, int threads) {
    exact_product(left(threads, weights.kernels()), weights, y, threads);
  }
  ResidueOperand weights(const ResidueKernels& kernels) const {
    return {{b.data(), n, k, static_cast<std::ptrdiff_t>(k), 1}, Side::right, 1, most_residue_bits() / 2, kernels};
  }
  /// Whether there were moduli enough.
  bool ours(const ResidueOperand& weights, int threads) {
    const ResidueOperand samples({a.data(), m, k, static_cast<std::ptrdiff_t>(k), 1}, Side::left, threads,
                                 weights.bits(), weights.kernels());
    return residue_product(samples, weights, y, threads);
  }
  void theirs() { multiply(a_double, b_double, c, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)); }
};

std::string case_of(const Data& data, const char* kernels, const std::string& rest) {
  return fmt::format("{}x{}x{}/{}/{}", data.m, data.k, data.n, kernels, rest);
}

std::vector<bench::Fact> facts_of(const Data& data) {
  const auto rounded = std::count_if(data.y.radius.begin(), data.y.radius.end(), [](double r) { return r != 0.0; });
  return {{"inexact", static_cast<double>(rounded)}};
}

void against_blas(std::size_t m, std::size_t k, std::size_t n, int runs, const ExactKernels& kernels) {
  Data data(m, k, n);
  const ExactOperand weights = data.right(1, kernels);
  data.ours(weights, 1);
  data.theirs();
  const auto time = bench::medians(
      runs, [&] { data.ours(weights, 1); }, [&] { data.theirs(); }, bench::cpu_seconds_of);
  bench::print("exact_product", case_of(data, kernels.name, "t1"), name(), time, 1, facts_of(data));
}

void by_residues(std::size_t m, std::size_t k, std::size_t n, int runs, const ResidueKernels& kernels) {
  Data data(m, k, n);
  const ResidueOperand weights = data.weights(kernels);
  if (!data.ours(weights, 1)) return;
  data.theirs();
  const auto time = bench::medians(
      runs, [&] { data.ours(weights, 1); }, [&] { data.theirs(); }, bench::cpu_seconds_of);
  bench::print("exact_product", case_of(data, kernels.name, "t1"), name(), time, 1, facts_of(data));
}

void by_residues_in_two_threads(std::size_t size, int runs, const ResidueKernels& kernels) {
  Data data(size, size, size);
  const ResidueOperand weights = data.weights(kernels);
  data.ours(weights, 2);
  const auto time = bench::medians(
      runs, [&] { data.ours(weights, 2); }, [&] { data.ours(weights, 1); });
  bench::print("exact_product", case_of(data, kernels.name, "t2"), "one-thread", time, 2, facts_of(data));
}

void with_packing(std::size_t size, int runs, const ExactKernels& kernels) {
  Data data(size, size, size);
  data.ours(data.right(1, kernels), 1);
  data.theirs();
  const auto time = bench::medians(
      runs, [&] { data.ours(data.right(1, kernels), 1); }, [&] { data.theirs(); }, bench::cpu_seconds_of);
  bench::print("exact_product", case_of(data, kernels.name, "t1/packing"), name(), time, 1, facts_of(data));
}

void two_threads(std::size_t size, int runs, const ExactKernels& kernels) {
  Data data(size, size, size);
  const ExactOperand weights = data.right(1, kernels);
  data.ours(weights, 2);
  const auto time = bench::medians(
      runs, [&] { data.ours(weights, 2); }, [&] { data.ours(weights, 1); });
  bench::print("exact_product", case_of(data, kernels.name, "t2"), "one-thread", time, 2, facts_of(data));
}

/// What a second thread can gain on this machine: two products at once that share nothing, and one after the other.
void two_apart(std::size_t size, int runs, const ExactKernels& kernels) {
  Data first(size, size, size), second(size, size, size);
  const ExactOperand first_weights = first.right(1, kernels), second_weights = second.right(1, kernels);
  const auto time = bench::medians(
      runs,
      [&] {
        std::thread other([&] { second.ours(second_weights, 1); });
        first.ours(first_weights, 1);
        other.join();
      },
      [&] {
        first.ours(first_weights, 1);
        second.ours(second_weights, 1);
      });
  bench::print("exact_product", case_of(first, kernels.name, "t2/apart"), "one-thread", time, 2, facts_of(first));
}

/// OpenBLAS reads the kernels to use when it is loaded: set, and start again.
[[maybe_unused]] void start_with(const char* core, char** arguments) {
  ::setenv("OPENBLAS_CORETYPE", core, 1);
  ::execv("/proc/self/exe", arguments);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view argument = argc > 1 ? argv[1] : "";
  if (argument == "--quick") {
    against_blas(12, 20, 33, 1, fastest_exact_kernels());
    return by_residues(12, 20, 33, 1, *usable_residue_kernels().back()), 0;
  }
  const ExactKernels& fastest = fastest_exact_kernels();
#ifdef DRIFTBOUND_WITH_OPENBLAS
  openblas_set_num_threads(1);
  if (fastest.name == std::string_view("avx512") && std::getenv("OPENBLAS_CORETYPE") == nullptr)
    start_with("SKYLAKEX", argv);
#endif
  if (argument == "--avx2") return against_blas(512, 512, 512, 25, *usable_exact_kernels()[1]), 0;
  against_blas(512, 512, 512, 25, fastest);
  with_packing(512, 25, fastest);
  against_blas(1024, 1024, 1024, 7, fastest);
  against_blas(256, 4096, 1024, 7, fastest);
  for (const ResidueKernels* kernels : usable_residue_kernels()) {
    if (kernels == &residue_baseline) continue;
    by_residues(512, 512, 512, 25, *kernels);
    by_residues(1024, 1024, 1024, 7, *kernels);
    by_residues(256, 4096, 1024, 7, *kernels);
    by_residues_in_two_threads(512, 25, *kernels);
  }
  two_threads(512, 25, fastest);
  two_threads(1024, 7, fastest);
  two_apart(512, 25, fastest);
  two_apart(1024, 7, fastest);
#ifdef DRIFTBOUND_WITH_OPENBLAS
  std::string avx2 = "--avx2";
  char* arguments[] = {argv[0], avx2.data(), nullptr};
  if (fastest.name == std::string_view("avx512")) start_with("HASWELL", arguments);
#endif
}
