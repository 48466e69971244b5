// Runs one network on the GPU in every mode and batch size and records each run; used by scripts/check_gpu.sh. In place of a
// network it takes a product of one inner dimension, whose model it writes beside the traces.
//
// The same chosen samples are recorded in every run, so that runs can be compared: our own product in its declared
// order with the CPU evaluator bit for bit, every mode with itself in the first batch size, and cuBLAS with the CPU
// evaluator roughly, which finds a wrong result but judges no rounding (driftbound report does).
// Prints a row a run, tab-separated. Exit status: 0 all passed, 1 something failed, 3 bad usage, 4 no usable GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/onnx_writer.hpp"
#include "support/recorded_provenance.hpp"

namespace {

using namespace driftbound;

struct Mode {
  const char* name;
  const char* arithmetic;
  CudaProduct product;
  const char* compared_with;  ///< arithmetic of the CPU evaluator
  double tolerance;           ///< of a layer's values, relative to the largest; 0: the same bits
};

// float64 is compared with float32 on the CPU: builds that record only have no float64 functions there.
constexpr std::array<Mode, 12> all_modes = {{
    {"fp32-ordered", "fp32", CudaProduct::ordered, "fp32", 0.0},
    {"tf32-ordered", "tf32", CudaProduct::ordered, "tf32", 0.0},
    {"bf16-ordered", "bf16", CudaProduct::ordered, "bf16", 0.0},
    {"fp16-ordered", "fp16", CudaProduct::ordered, "fp16", 0.0},
    {"fp32-cublas", "fp32", CudaProduct::vendor, "fp32", 1e-3},
    {"fp32-cublas-pedantic", "fp32", CudaProduct::vendor_pedantic, "fp32", 1e-3},
    {"tf32-cublas", "tf32", CudaProduct::vendor, "tf32", 0.05},
    {"bf16-cublas", "bf16", CudaProduct::vendor, "bf16", 0.3},
    {"fp16-cublas", "fp16", CudaProduct::vendor, "fp16", 0.05},
    {"fp64-cublas", "fp64", CudaProduct::vendor, "fp32", 1e-3},
    {"fp64-cublas-pedantic", "fp64", CudaProduct::vendor_pedantic, "fp32", 1e-3},
    {"fp64-ordered", "fp64", CudaProduct::ordered, "fp32", 1e-3},
}};

struct Settings {
  std::string model, out;
  std::int64_t product = 0;  ///< inner dimension; 0: a model is given
  std::vector<std::string> modes;
  std::vector<std::int64_t> batches = {1, 16, 256, 10000};
  std::int64_t samples = 10000;
  std::int64_t rows = 64;
};

/// Which samples a run takes, and which of them it records.
struct Run {
  Inputs inputs;
  RunOptions options;
};

/// How two recordings of the same samples differ, over all layers.
struct Difference {
  std::int64_t values = 0, changed = 0;
  double largest = 0.0;  ///< of a value, relative to the largest of its layer
  std::string layer;     ///< where that is

  bool within(double tolerance) const { return tolerance == 0.0 ? changed == 0 : largest <= tolerance; }
};

std::vector<std::int64_t> chosen_rows(std::int64_t samples, std::int64_t count) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) * samples / count;
  return rows;
}

/// Rows of axis 0 in the order given.
StoredTensor gathered(const StoredTensor& tensor, const std::vector<std::int64_t>& rows) {
  const std::size_t row_bytes = tensor.bytes().size() / static_cast<std::size_t>(tensor.shape()[0]);
  std::vector<std::byte> bytes(rows.size() * row_bytes);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(bytes.data() + i * row_bytes, tensor.bytes().data() + static_cast<std::size_t>(rows[i]) * row_bytes,
                row_bytes);
  Shape shape = tensor.shape();
  shape[0] = static_cast<std::int64_t>(rows.size());
  return StoredTensor(tensor.type(), std::move(shape), std::move(bytes));
}

/// All samples where they are one batch; else the chosen ones, followed by as many others as fill the last batch.
Run run_of(const Inputs& all, std::int64_t samples, const std::vector<std::int64_t>& chosen, std::int64_t batch) {
  Run run;
  run.options.batch = std::min(batch, samples);
  if (batch >= samples) {
    run.inputs = all;
    run.options.rows = chosen;
    return run;
  }
  const auto recorded = static_cast<std::int64_t>(chosen.size());
  const std::int64_t wanted = (recorded + batch - 1) / batch * batch;
  std::vector<std::int64_t> taken = chosen;
  for (std::int64_t row = 0; row < samples && static_cast<std::int64_t>(taken.size()) < wanted; ++row)
    if (!std::binary_search(chosen.begin(), chosen.end(), row)) taken.push_back(row);
  for (const auto& [name, tensor] : all.tensors) run.inputs.tensors.emplace_back(name, gathered(tensor, taken));
  run.options.rows.resize(chosen.size());
  std::iota(run.options.rows.begin(), run.options.rows.end(), 0);
  return run;
}

/// The larger one; NaN is the largest of all.
double worse(double a, double b) {
  return b > a || std::isnan(b) ? b : a;
}

Difference difference_of(const Trace& a, const Trace& b) {
  if (a.layers.size() != b.layers.size()) throw ShapeMismatch("the recordings have different numbers of layers");
  Difference difference;
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    const StoredTensor &x = a.layers[layer].output, &y = b.layers[layer].output;
    if (x.shape() != y.shape())
      throw ShapeMismatch("layer " + a.layers[layer].name + ": " + to_string(x.shape()) + " and " +
                          to_string(y.shape()));
    difference.values += static_cast<std::int64_t>(x.size());
    if (x.identical(y)) continue;
    const std::vector<double> values = x.to_double().values, others = y.to_double().values;
    double scale = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      scale = std::max(scale, std::abs(others[i]));
      if (std::memcmp(&values[i], &others[i], sizeof(double)) != 0) ++difference.changed;
      largest = worse(largest, std::abs(values[i] - others[i]));
    }
    const double relative = largest == 0.0 ? 0.0 : largest / scale;
    if (worse(difference.largest, relative) == difference.largest || std::isnan(difference.largest)) continue;
    difference.largest = relative;
    difference.layer = a.layers[layer].name;
  }
  return difference;
}

class Check {
public:
  explicit Check(const Settings& settings)
      : settings_(settings),
        graph_(load_model(settings.model)),
        hash_(sha256_of_file(settings.model)),
        name_(std::filesystem::path(settings.model).stem().string()),
        chosen_(chosen_rows(settings.samples, settings.rows)) {
    InputGenerator generator;
    generator.samples = settings.samples;
    inputs_ = generate_inputs(graph_, generator);
  }

  /// Whether every run passed.
  bool run() {
    bool passed = true;
    for (const Mode& mode : all_modes) {
      if (std::find(settings_.modes.begin(), settings_.modes.end(), mode.name) == settings_.modes.end()) continue;
      std::optional<Trace> first;
      for (const std::int64_t batch : settings_.batches) passed = record(mode, batch, first) && passed;
    }
    return passed;
  }

private:
  bool record(const Mode& mode, std::int64_t batch, std::optional<Trace>& first) {
    const auto start = std::chrono::steady_clock::now();
    std::string result, effect = "-", changed_on_cpu = "-", largest = "-", changed_by_batch = "-";
    std::size_t layers = 0;
    try {
      Trace trace = trace_of(mode, batch);
      layers = trace.layers.size();
      effect = name_of(trace.provenance.observer_effect);
      write_trace(trace,
                  std::filesystem::path(settings_.out) / fmt::format("{}.{}.b{}.safetensors", name_, mode.name, batch));
      const Difference from_cpu = difference_of(trace, on_cpu(mode));
      if (std::string(mode.arithmetic) == mode.compared_with)
        changed_on_cpu = fmt::format("{}/{}", from_cpu.changed, from_cpu.values);
      largest = fmt::format("{:.1e}", from_cpu.largest);
      result = verdict(mode, trace, from_cpu);
      if (first) {
        const Difference by_batch = difference_of(trace, *first);
        changed_by_batch = fmt::format("{}/{}", by_batch.changed, by_batch.values);
        if (result == "pass" && mode.product == CudaProduct::ordered && by_batch.changed != 0)
          result = "FAIL: depends on the batch size, most in layer " + by_batch.layer;
      } else {
        first = std::move(trace);
      }
    } catch (const Error& error) {
      result = std::string("FAIL: ") + error.what();
    }
    std::replace_if(
        result.begin(), result.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{}\t{}\t{}\t{}\t{}\t{:.2f}\t{}\t{}\t{}\t{}\t{}\n", name_, mode.name, batch, layers, chosen_.size(),
               seconds, effect, changed_on_cpu, largest, changed_by_batch, result);
    std::fflush(stdout);
    return result == "pass";
  }

  Trace trace_of(const Mode& mode, std::int64_t batch) {
    const Run run = run_of(inputs_, settings_.samples, chosen_, batch);
    Trace trace = on_gpu(mode).run(graph_, run.inputs, run.options);
    trace.model_sha256 = hash_;
    return trace;
  }

  const Evaluator& on_gpu(const Mode& mode) {
    const auto found = on_gpu_.find(mode.name);
    if (found != on_gpu_.end()) return found->second;
    CudaOptions options;
    options.arithmetic = mode.arithmetic;
    options.product = mode.product;
    return on_gpu_.emplace(mode.name, cuda_evaluator(options)).first->second;
  }

  const Trace& on_cpu(const Mode& mode) {
    const auto found = on_cpu_.find(mode.compared_with);
    if (found != on_cpu_.end()) return found->second;
    const Run run = run_of(inputs_, settings_.samples, chosen_, 1);
    const Evaluator evaluator = cpu_evaluator(cpu_arithmetic(mode.compared_with, CudaOptions().order));
    return on_cpu_.emplace(mode.compared_with, evaluator.run(graph_, run.inputs)).first->second;
  }

  static std::string verdict(const Mode& mode, const Trace& trace, const Difference& from_cpu) {
    const std::string lacking = test::lacking_provenance(trace.provenance);
    if (!lacking.empty()) return "FAIL: the provenance does not say: " + lacking;
    if (trace.provenance.observer_effect != ObserverEffect::none)
      return "FAIL: observer effect " + std::string(name_of(trace.provenance.observer_effect));
    if (from_cpu.within(mode.tolerance)) return "pass";
    return fmt::format("FAIL: {} of {} values differ from the CPU's, most in layer {}", from_cpu.changed,
                       from_cpu.values, from_cpu.layer);
  }

  const Settings& settings_;
  Graph graph_;
  std::string hash_, name_;
  std::vector<std::int64_t> chosen_;
  Inputs inputs_;
  std::map<std::string, Evaluator> on_gpu_;
  std::map<std::string, Trace> on_cpu_;
};

/// Writes x W with W [k, 64] to the folder of the traces.
std::string product_model(const Settings& settings) {
  constexpr std::int64_t columns = 64;
  std::mt19937_64 draw(39);
  std::vector<float> weights(static_cast<std::size_t>(settings.product * columns));
  for (float& weight : weights)
    weight = static_cast<float>(std::ldexp(static_cast<double>(draw() >> 11), -52) - 1.0) /
             std::sqrt(static_cast<float>(settings.product));
  return test::OnnxModel()
      .input("x", {"samples", settings.product})
      .initializer("w", {settings.product, columns}, weights)
      .node("MatMul", {"x", "w"}, "y")
      .output("y")
      .save(std::filesystem::path(settings.out) / fmt::format("product_{}x{}.onnx", settings.product, columns))
      .string();
}

std::vector<std::string> mode_names() {
  std::vector<std::string> names;
  for (const Mode& mode : all_modes) names.emplace_back(mode.name);
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  settings.modes = mode_names();
  CLI::App app("Runs a network on the GPU in every mode and batch size, records and compares the runs.");
  CLI::Option* const model = app.add_option("MODEL", settings.model, "Model (.onnx)");
  app.add_option("--product", settings.product, "In place of a model: the inner dimension of a product with 64 columns")
      ->check(CLI::PositiveNumber)
      ->excludes(model);
  app.add_option("--out", settings.out, "Folder for the traces")->required()->check(CLI::ExistingDirectory);
  app.add_option("--modes", settings.modes, "Modes, comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember(mode_names()));
  app.add_option("--batches", settings.batches, "Batch sizes, comma-separated")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--samples", settings.samples, "Samples of the largest batch")->check(CLI::PositiveNumber);
  app.add_option("--rows", settings.rows, "Samples to record")->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
    if (settings.model.empty() && settings.product == 0) throw CLI::RequiredError("MODEL or --product");
    if (settings.rows > settings.samples) throw CLI::ValidationError("--rows", "more rows than samples");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 3;
  }
  try {
    cuda_evaluator({});
    if (settings.product > 0) settings.model = product_model(settings);
    return Check(settings).run() ? 0 : 1;
  } catch (const NotAvailable& error) {
    fmt::print(stderr, "check_networks: {}\n", error.what());
    return 4;
  } catch (const Error& error) {
    fmt::print(stderr, "check_networks: {}\n", error.what());
    return 3;
  }
}
