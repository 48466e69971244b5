// What comparing two runs costs:
//   pair/*    two recordings of a chain of products and Relus compared, in times that the report of one alone takes
//   noise/*   the structure of differences, in times of the product of their matrix with itself in Eigen
#include "analysis/drift.hpp"

#include <Eigen/Core>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "analysis/judge_records.hpp"
#include "analysis/noise.hpp"
#include "bench/normal.hpp"
#include "bench/timing.hpp"
#include "cli/keep_memory.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

using namespace driftbound;

/// Layers relu(x W), the products added up from the first term on or from the last.
void record_chain(const std::filesystem::path& file, std::int64_t rows, std::int64_t width, int layers,
                  bool is_backwards) {
  test::RecordingWriter writer;
  Tensor<float> x = bench::normal({rows, width}, 1);
  writer.value("x0", StoredTensor::from(x));
  for (int layer = 0; layer < layers; ++layer) {
    const std::string number = std::to_string(layer);
    Tensor<float> w = bench::normal({width, width}, 2 + static_cast<std::uint64_t>(layer));
    for (float& value : w.values) value *= 0.1F;
    Tensor<float> y({rows, width});
    const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t step = 0; step < n; ++step) {
        const std::size_t k = is_backwards ? n - 1 - step : step;
        for (std::size_t j = 0; j < n; ++j) y.values[i * n + j] += x.values[i * n + k] * w.values[k * n + j];
      }
    writer.value("w" + number, StoredTensor::from(w));
    writer.value("y" + number, StoredTensor::from(y));
    writer.record("aten::mm", {"x" + number, "w" + number}, {"y" + number}, {}, "layer" + number);
    for (float& value : y.values) value = std::max(value, 0.0F);
    x = y;
    writer.value("x" + std::to_string(layer + 1), StoredTensor::from(x));
    writer.record("aten::relu", {"y" + number}, {"x" + std::to_string(layer + 1)}, {}, "layer" + number);
  }
  writer.write(file);
}

void bench_pair(std::int64_t rows, std::int64_t width, int layers, int runs) {
  const test::TemporaryFolder folder;
  record_chain(folder / "a.safetensors", rows, width, layers, false);
  record_chain(folder / "b.safetensors", rows, width, layers, true);
  const RecordedRun a(folder / "a.safetensors"), b(folder / "b.safetensors");
  analysis::DriftOptions options;
  options.most_numbers = std::int64_t{1} << 30;
  for (const BoundKind kind :
       {BoundKind::componentwise, BoundKind::partial_sums, BoundKind::probabilistic, BoundKind::running,
        BoundKind::order_aware, BoundKind::adjoint_any_order, BoundKind::adjoint_statistical})
    options.judge.bounds.emplace_back(kind);
  bench::print("drift", fmt::format("pair/{}x{}x{}/t1", rows, width, layers), "one report",
               bench::medians(
                   runs,
                   [&] {
                     const analysis::JudgedRun first = judge_run_alone(a, options),
                                               second = judge_run_alone(b, options);
                     (void)compare_runs(first, second, options);
                   },
                   [&] { (void)judge_run_alone(a, options); }, bench::cpu_seconds_of),
               1);
}

void bench_noise(std::int64_t rows, std::int64_t columns, int runs) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> draw;
  const auto numbers = static_cast<std::size_t>(rows * columns);
  std::vector<double> differences(numbers), first(numbers), second(numbers);
  for (std::size_t i = 0; i < numbers; ++i) {
    differences[i] = draw(random);
    first[i] = draw(random);
    second[i] = first[i] + differences[i];
  }
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> matrix(
      differences.data(), rows, columns);
  Eigen::MatrixXd product;
  bench::print("drift", fmt::format("noise/{}x{}/t1", rows, columns), "Eigen X'X",
               bench::medians(
                   runs, [&] { (void)analysis::estimate_noise_structure(first, second, columns); },
                   [&] { product.noalias() = matrix.transpose() * matrix; }, bench::cpu_seconds_of),
               1);
}

}  // namespace

int main(int argc, char** argv) {
  cli::keep_memory();
  const bool is_quick = argc > 1 && std::string(argv[1]) == "--quick";
  bench_pair(is_quick ? 4 : 64, is_quick ? 16 : 256, is_quick ? 1 : 4, is_quick ? 1 : 3);
  bench_noise(is_quick ? 100 : 10000, is_quick ? 8 : 1024, is_quick ? 1 : 3);
}
