// Runs suites of ONNX models that others wrote: every folder below the roots that holds model.onnx and test_data_set_*.
//   suite_check ROOT... [--list]
// A case passes where, for every float output,
//   - the formulas of evaluate_as<double> agree with the expected output to a few units of its type,
//   - the CPU evaluator's layers lie within their bounds of the certified local reference,
//   - the expected output lies within the accumulated bound, doubled, of the certified reference: both runs are
//   float32.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference.hpp"
#include "model/mapped_file.hpp"
#include "model/onnx_tensor.hpp"

namespace {

using namespace driftbound;
namespace fs = std::filesystem;

struct Outcome {
  enum class Kind { passed, unsupported, failed } kind = Kind::passed;
  std::string reason;
  std::vector<double> excess;  ///< bound / error of the layers' elements whose error is not 0
};

StoredTensor read_tensor(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  return onnx::to_stored(onnx::parse_tensor(mapped->bytes()), mapped, file.string());
}

double tolerance(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1e-12;
    case ElementType::f32:
      return 2e-5;
    case ElementType::f16:
      return 4e-3;
    default:
      return 1.6e-2;
  }
}

Outcome failed(const std::string& reason) {
  return {Outcome::Kind::failed, reason, {}};
}

bool close(double found, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(found);
  if (std::isinf(expected)) return found == expected;
  return std::abs(found - expected) <= relative * (1.0 + std::abs(expected));
}

std::string first_difference(const Tensor<double>& found, const Tensor<double>& expected, double relative) {
  if (found.size() != expected.size())
    return to_string(found.shape) + " where " + to_string(expected.shape) + " is expected";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (close(found.values[i], expected.values[i], relative)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(found.values[i]) + ", expected " +
           std::to_string(expected.values[i]);
  }
  return "";
}

/// Every layer of a float32 run within its bounds.
std::string check_bounds(const Graph& graph, const Inputs& inputs, Outcome& outcome) {
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  const BatchLayout layout = batch_layout(graph);
  const Trace whole = evaluator.run(graph, inputs);
  const Trace trace = slice(graph, layout, whole, 0, layout.batched ? whole.samples : 1);
  const Reference reference = local_reference(graph, trace);
  const Bounds bounds = bound(graph, trace);
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const Tensor<double> computed = trace.layers[node].output.to_double();
    for (const BoundResult& result : bounds.layers[node].local) {
      if (result.guarantee != Guarantee::proven && result.guarantee != Guarantee::conditional) continue;
      for (std::size_t i = 0; i < computed.size(); ++i) {
        const double limit = result.values.values[i];
        const Ball& exact = reference.layers[node].values[i];
        if (std::isinf(limit) || !exact.is_finite() || !std::isfinite(computed.values[i])) continue;
        const Interval error = error_of(computed.values[i], exact);
        if (error.lower() > limit) {
          return graph.nodes[node].name + " breaks " + result.name + ": error " + std::to_string(error.lower()) +
                 ", bound " + std::to_string(limit);
        }
        if (error.lower() > 0.0 && result.name == "componentwise") outcome.excess.push_back(limit / error.lower());
      }
    }
  }
  return "";
}

Inputs inputs_of(const Graph& graph, const fs::path& set) {
  Inputs inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    inputs.tensors.emplace_back(graph.value(graph.inputs[i]).name,
                                read_tensor(set / ("input_" + std::to_string(i) + ".pb")));
  }
  return inputs;
}

/// The suites pass axes, shapes, exponents and conditions as inputs. They are part of the function: first those that
/// hold no floats become constants, then all but the first input.
struct Case {
  ModelDescription model;
  Inputs arguments;
};

Case load_case(const fs::path& file, const fs::path& set) {
  Case result{describe_model(file), {}};
  const Inputs all = inputs_of(result.model.graph, set);
  result.arguments = all;
  for (const bool keeps_floats : {true, false}) {
    if (result.model.unsupported.empty()) break;
    Inputs constants, arguments;
    for (std::size_t i = 0; i < all.tensors.size(); ++i) {
      const bool is_argument = keeps_floats ? is_float(all.tensors[i].second.type()) : i == 0;
      (is_argument ? arguments : constants).tensors.push_back(all.tensors[i]);
    }
    if (constants.tensors.empty()) continue;
    result = {describe_model(file, constants), arguments};
  }
  return result;
}

Outcome run_case(const fs::path& folder) {
  const Case first = load_case(folder / "model.onnx", folder / "test_data_set_0");
  const ModelDescription& model = first.model;
  if (!model.unsupported.empty()) {
    return {Outcome::Kind::unsupported, model.unsupported[0].op + ": " + model.unsupported[0].reason, {}};
  }
  Outcome outcome;
  for (const fs::directory_entry& set : fs::directory_iterator(folder)) {
    if (set.path().filename().string().rfind("test_data_set_", 0) != 0) continue;
    const Inputs inputs = load_case(folder / "model.onnx", set.path()).arguments;
    const std::vector<Tensor<double>> layers = evaluate_as<double>(model.graph, inputs);
    for (std::size_t i = 0; i < model.graph.outputs.size(); ++i) {
      const StoredTensor stored = read_tensor(set.path() / ("output_" + std::to_string(i) + ".pb"));
      const auto producer = model.graph.producer(model.graph.outputs[i]);
      if (!producer) continue;
      const std::string difference = first_difference(layers[*producer], stored.to_double(), tolerance(stored.type()));
      if (!difference.empty()) return failed("output " + std::to_string(i) + ": " + difference);
    }
    const std::string broken = check_bounds(model.graph, inputs, outcome);
    if (!broken.empty()) return failed(broken);
  }
  return outcome;
}

Outcome run_safely(const fs::path& folder) {
  try {
    return run_case(folder);
  } catch (const Unsupported& error) {
    return {Outcome::Kind::unsupported, error.what(), {}};
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::vector<std::string>> unsupported;
  std::vector<std::string> failures;
  std::vector<double> excess;
  int passed = 0;
  for (int i = 1; i < argc; ++i) {
    std::vector<fs::path> folders;
    for (const fs::directory_entry& entry : fs::directory_iterator(argv[i])) {
      if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    for (const fs::path& folder : folders) {
      const Outcome outcome = run_safely(folder);
      const std::string name = folder.filename().string();
      if (outcome.kind == Outcome::Kind::unsupported) unsupported[outcome.reason].push_back(name);
      if (outcome.kind == Outcome::Kind::failed) failures.push_back(name + ": " + outcome.reason);
      if (outcome.kind == Outcome::Kind::passed) ++passed;
      excess.insert(excess.end(), outcome.excess.begin(), outcome.excess.end());
    }
  }
  for (const auto& [reason, names] : unsupported)
    std::printf("unsupported %3zu  %s (%s)\n", names.size(), reason.c_str(), names[0].c_str());
  for (const std::string& failure : failures) std::printf("FAILED %s\n", failure.c_str());
  std::size_t refused = 0;
  for (const auto& [reason, names] : unsupported) refused += names.size();
  std::sort(excess.begin(), excess.end());
  std::printf("passed %d, unsupported %zu, failed %zu, median bound/error %.2f over %zu elements\n", passed, refused,
              failures.size(), excess.empty() ? 0.0 : excess[excess.size() / 2], excess.size());
  return failures.empty() ? 0 : 1;
}
