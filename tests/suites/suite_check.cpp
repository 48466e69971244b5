// Runs suites of ONNX models that others wrote: every folder of a suite that holds model.onnx and test_data_set_*.
//   suite_check [SUITE...]       default: $DRIFTBOUND_TEST_DATA/onnx-node and those of Debian's libonnx-testdata
// Exit status 77 where there is none.
// A case passes where, for every float output,
//   - the formulas of evaluate_as<double> agree with the expected output to a few units of its type,
//   - the CPU evaluator's layers lie within their bounds of the certified local reference,
//   - the expected output lies within the accumulated bound, doubled, of the certified reference: both runs are
//   float32.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
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

std::vector<fs::path> suites_here() {
  std::vector<fs::path> suites;
  if (const char* data = std::getenv("DRIFTBOUND_TEST_DATA")) suites.push_back(fs::path(data) / "onnx-node");
  for (const char* suite : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    suites.push_back(fs::path("/usr/share/libonnx-testdata/data") / suite);
  }
  suites.erase(std::remove_if(suites.begin(), suites.end(), [](const fs::path& p) { return !fs::is_directory(p); }),
               suites.end());
  return suites;
}

/// Cases that differ from ONNX's expectation, by name.
std::set<std::string> exceptions() {
  std::set<std::string> names;
  std::ifstream file(std::string(DRIFTBOUND_SOURCE_DIR) + "/tests/suites/exceptions.txt");
  for (std::string line; std::getline(file, line);) names.insert(line.substr(0, line.find(' ')));
  return names;
}

/// What became of the cases of one suite.
class Tally {
public:
  void add(const std::string& name, const Outcome& outcome) {
    if (outcome.kind == Outcome::Kind::unsupported) unsupported_[outcome.reason].push_back(name);
    if (outcome.kind == Outcome::Kind::passed) ++passed_;
    if (outcome.kind == Outcome::Kind::failed) {
      (exceptions_.count(name) != 0 ? excepted_ : failed_).push_back(name + ": " + outcome.reason);
    }
    excess_.insert(excess_.end(), outcome.excess.begin(), outcome.excess.end());
  }

  bool print(const fs::path& suite) {
    std::size_t refused = 0;
    for (const auto& [reason, names] : unsupported_) {
      std::printf("  unsupported %3zu  %s (%s)\n", names.size(), reason.c_str(), names[0].c_str());
      refused += names.size();
    }
    for (const std::string& text : excepted_) std::printf("  excepted    %s\n", text.c_str());
    for (const std::string& text : failed_) std::printf("  FAILED      %s\n", text.c_str());
    std::sort(excess_.begin(), excess_.end());
    std::printf("%s: passed %d, unsupported %zu, excepted %zu, failed %zu; median bound/error %.1f of %zu elements\n",
                suite.c_str(), passed_, refused, excepted_.size(), failed_.size(),
                excess_.empty() ? 0.0 : excess_[excess_.size() / 2], excess_.size());
    return failed_.empty() && passed_ > 0;
  }

private:
  const std::set<std::string> exceptions_ = exceptions();
  std::map<std::string, std::vector<std::string>> unsupported_;
  std::vector<std::string> failed_, excepted_;
  std::vector<double> excess_;
  int passed_ = 0;
};

bool run_suite(const fs::path& suite) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(suite)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  Tally tally;
  for (const fs::path& folder : folders) tally.add(folder.filename().string(), run_safely(folder));
  return tally.print(suite);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> suites(argv + 1, argv + argc);
  if (suites.empty()) suites = suites_here();
  if (suites.empty()) {
    std::printf("skipped: no suite here; set DRIFTBOUND_TEST_DATA, or install libonnx-testdata\n");
    return 77;
  }
  bool all_passed = true;
  for (const fs::path& suite : suites) all_passed = run_suite(suite) && all_passed;
  return all_passed ? 0 : 1;
}
