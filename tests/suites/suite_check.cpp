// Runs suites of ONNX models that others wrote: every folder of a suite that holds model.onnx and test_data_set_*.
//   suite_check [SUITE...]       default: $DRIFTBOUND_TEST_DATA/onnx-node and those of Debian's libonnx-testdata
//   suite_check --outputs FOLDER SUITE      the outputs that another program computed, FOLDER/CASE/SET/output_0.pb …
// Exit status 77 where there is none.
// A case passes where, for every output of floats or truth values,
//   - the formulas of evaluate_as<double> agree with the expected output to a few units of its type,
//   - the CPU evaluator's layers lie within their bounds of the certified local reference,
//   - the expected output lies within its accumulated bound of the certified reference.
// The expected output is a run of somebody else's, of which the suite records the last layer: that run is judged as a
// trace would be, in the model's format, order of sums unknown, every function within 4 ulp. Layers in between are
// recorded by nobody; ours stand in for them, and the bound is doubled where there are any that round.
// Of another program's outputs only the last is asked.
// Listed are the ops that driftbound has in full (listed_ops.txt): at least 95 % of their float cases pass, and
// exceptions.txt names the others (at most 10 entries).
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/reference/reference.hpp"
#include "model/mapped_file.hpp"
#include "model/onnx_proto.hpp"
#include "model/onnx_tensor.hpp"

namespace {

using namespace driftbound;
namespace fs = std::filesystem;

struct Outcome {
  enum class Kind { passed, unsupported, failed } kind = Kind::passed;
  std::string reason;
  std::vector<double> layers;              ///< bound / error of the layers' elements whose error is not 0
  std::vector<double> expected;            ///< the same of the expected outputs
  std::size_t bounded = 0, unbounded = 0;  ///< expected elements with and without a finite bound
};

/// A tensor of the suite. The suites store bfloat16 as uint16, which numpy has.
StoredTensor read_tensor(const fs::path& file, std::optional<ElementType> declared) {
  const auto mapped = MappedFile::open(file);
  const StoredTensor tensor = onnx::to_stored(onnx::parse_tensor(mapped->bytes()), mapped, file.string());
  if (declared != ElementType::bf16 || tensor.type() != ElementType::u16) return tensor;
  return StoredTensor(ElementType::bf16, tensor.shape(), {tensor.bytes().begin(), tensor.bytes().end()});
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
  Outcome outcome;
  outcome.kind = Outcome::Kind::failed;
  outcome.reason = reason;
  return outcome;
}

Outcome unsupported(const std::string& reason) {
  Outcome outcome = failed(reason);
  outcome.kind = Outcome::Kind::unsupported;
  return outcome;
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

std::string text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.9g", value);
  return buffer;
}

/// Every layer of our own run within its bounds.
std::string check_layers(const Graph& graph, const Trace& trace, Outcome& outcome) {
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
          return graph.nodes[node].name + " breaks " + std::string(name_of(result.kind)) + ": error " +
                 text(error.lower()) + ", bound " + text(limit);
        }
        if (error.lower() > 0.0 && result.kind == BoundKind::componentwise)
          outcome.layers.push_back(limit / error.lower());
      }
    }
  }
  return "";
}

FormatId format_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return FormatId::fp64;
    case ElementType::f16:
      return FormatId::fp16;
    case ElementType::bf16:
      return FormatId::bf16;
    default:
      return FormatId::fp32;
  }
}

/// What is assumed of whoever computed the expected outputs, in the widest format of the model.
ArithmeticModel arithmetic_of_others(const Graph& graph) {
  ElementType widest = ElementType::bf16;
  for (const Value& value : graph.values) {
    for (const ElementType type : {ElementType::f16, ElementType::f32, ElementType::f64}) {
      if (value.type == type && bytes_per_element(type) >= bytes_per_element(widest)) widest = type;
    }
  }
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", SummationOrder{});
  arithmetic.name = "the suite's";
  arithmetic.input = arithmetic.accumulator = arithmetic.output = format_of(widest);
  arithmetic.evidence = Evidence::assumed;
  constexpr double four_ulps = 9.0;
  for (FunctionAccuracy& function : arithmetic.functions) {
    function.units = function.function == "sqrt" ? 1.0 : four_ulps;
    function.evidence = Evidence::assumed;
    function.source = "tests/suites";
  }
  return arithmetic;
}

/// The outputs that a set of the suite expects, by node.
using ExpectedOutputs = std::map<std::size_t, StoredTensor>;

/// Our run with the expected outputs in place of ours.
Trace trace_of_others(const Graph& graph, Trace trace, const ExpectedOutputs& expected) {
  trace.arithmetic = arithmetic_of_others(graph);
  trace.provenance.program = "somebody else's";
  for (const auto& [node, tensor] : expected) trace.layers[node].output = tensor;
  return trace;
}

bool has_unrecorded_layers(const Graph& graph, const ExpectedOutputs& expected) {
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    if (expected.count(node) == 0 && !is_selection(graph.nodes[node].op)) return true;
  }
  return false;
}

const BoundResult& forward_bound(const LayerBounds& layer) {
  return *std::find_if(layer.accumulated.begin(), layer.accumulated.end(),
                       [](const BoundResult& result) { return result.kind == BoundKind::forward; });
}

/// The expected outputs within their accumulated bounds of the certified reference.
std::string check_expected(const Graph& graph, const Trace& own, const ExpectedOutputs& expected, Outcome& outcome) {
  const Trace trace = trace_of_others(graph, own, expected);
  const Reference reference = certified_reference(graph, trace.inputs, {}, &trace);
  const Bounds bounds = bound(graph, trace);
  const double allowance = has_unrecorded_layers(graph, expected) ? 2.0 : 1.0;
  for (const auto& [node, tensor] : expected) {
    const Tensor<double> found = tensor.to_double();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double limit = allowance * forward_bound(bounds.layers[node]).values.values[i];
      const Ball& exact = reference.layers[node].values[i];
      if (std::isinf(limit) || !exact.is_finite() || !std::isfinite(found.values[i])) {
        ++outcome.unbounded;
        continue;
      }
      const Interval error = error_of(found.values[i], exact);
      if (!(error.upper() <= limit)) {
        return "expected element " + std::to_string(i) + " of " + graph.nodes[node].name + " is off by " +
               text(error.upper()) + ", bound " + text(limit);
      }
      ++outcome.bounded;
      if (error.lower() > 0.0) outcome.expected.push_back(limit / error.lower());
    }
  }
  return "";
}

// ---- one case -------------------------------------------------------------------------------------------------------

/// What a model declares of its inputs or outputs: their element types, empty where they are no arrays of numbers.
std::vector<std::optional<ElementType>> types_of(const std::vector<onnx::ValueInfoProto>& values) {
  std::vector<std::optional<ElementType>> types;
  for (const onnx::ValueInfoProto& value : values)
    types.push_back(value.is_tensor ? onnx::element_type(value.element_type) : std::nullopt);
  return types;
}

struct Declared {
  std::vector<std::string> input_names;
  std::vector<std::optional<ElementType>> inputs, outputs;
  std::vector<std::string> ops;
};

Declared declared(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  const onnx::ModelProto model = onnx::parse_model(mapped->bytes());
  Declared result{{}, types_of(model.graph->inputs), types_of(model.graph->outputs), {}};
  for (const onnx::ValueInfoProto& input : model.graph->inputs) result.input_names.emplace_back(input.name);
  for (const onnx::NodeProto& node : model.graph->nodes)
    result.ops.push_back((node.domain.empty() ? "" : std::string(node.domain) + ".") + std::string(node.op_type));
  return result;
}

/// The inputs of a set that are there: those of initialisers are not.
Inputs inputs_of(const Declared& model, const fs::path& set) {
  Inputs inputs;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const fs::path file = set / ("input_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) continue;
    if (!model.inputs[i]) throw Unsupported("an input is no array of numbers");
    inputs.tensors.emplace_back(model.input_names[i], read_tensor(file, model.inputs[i]));
  }
  return inputs;
}

struct Case {
  ModelDescription model;
  Inputs arguments;
};

Case with_constants(const fs::path& file, const Inputs& all, const std::set<std::string>& constant_names) {
  Inputs constants, arguments;
  for (const auto& input : all.tensors)
    (constant_names.count(input.first) ? constants : arguments).tensors.push_back(input);
  return {describe_model(file, constants), arguments};
}

bool has_infinities(const StoredTensor& tensor) {
  if (!is_float(tensor.type())) return false;
  const Tensor<double> values = tensor.to_double();
  return std::any_of(values.values.begin(), values.values.end(), [](double value) { return std::isinf(value); });
}

std::set<std::string> unread_inputs(const Graph& graph) {
  std::set<std::string> names;
  for (const ValueId input : graph.inputs) {
    const bool is_read = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), input) != node.inputs.end();
    });
    if (!is_read) names.insert(graph.value(input).name);
  }
  return names;
}

/// The suites pass axes, shapes, exponents and conditions as inputs. They are part of the function and become
/// constants: inputs without elements, masks with infinities behind the first input, where that does not do all that
/// hold no floats, then all but the first, and then all but the last.
Case load_case(const fs::path& file, const Declared& model, const fs::path& set) {
  const Inputs all = inputs_of(model, set);
  std::set<std::string> constants;
  for (std::size_t i = 0; i < all.tensors.size(); ++i) {
    const auto& [name, tensor] = all.tensors[i];
    if (tensor.size() == 0 || (i > 0 && has_infinities(tensor))) constants.insert(name);
  }
  Case result = with_constants(file, all, constants);
  enum class Kept { floats, first, last };
  for (const Kept kept : {Kept::floats, Kept::first, Kept::last}) {
    if (result.model.unsupported.empty()) break;
    if (kept == Kept::last) constants.erase(all.tensors.back().first);
    for (std::size_t i = 0; i < all.tensors.size(); ++i) {
      const bool is_argument = kept == Kept::floats  ? is_float(all.tensors[i].second.type())
                               : kept == Kept::first ? i == 0
                                                     : i + 1 == all.tensors.size();
      if (!is_argument) constants.insert(all.tensors[i].first);
    }
    result = with_constants(file, all, constants);
  }
  const std::set<std::string> unread = unread_inputs(result.model.graph);
  if (unread.empty() || !result.model.unsupported.empty()) return result;
  constants.insert(unread.begin(), unread.end());
  return with_constants(file, all, constants);
}

bool is_same(const StoredTensor& a, const StoredTensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() &&
         std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin());
}

/// Calls `visit(output, tensor)` for every output of the graph that a folder has.
template <class Visit>
void for_outputs(const Graph& graph, const Declared& model, const fs::path& folder, Visit visit) {
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const fs::path file = folder / ("output_" + std::to_string(i) + ".pb");
    if (fs::exists(file)) visit(i, read_tensor(file, model.outputs[i]));
  }
}

/// Where the formulas or a constant differ from the expected outputs.
std::string check_formulas(const Graph& graph, const Declared& model, const Inputs& inputs, const fs::path& folder) {
  const std::vector<Tensor<double>> layers = evaluate_as<double>(graph, inputs);
  std::string difference;
  for_outputs(graph, model, folder, [&](std::size_t i, const StoredTensor& stored) {
    const ValueId output = graph.outputs[i];
    std::string here;
    if (graph.is_constant(output) && !is_same(graph.value(output).constant, stored)) here = "another constant";
    if (const auto producer = graph.producer(output))
      here = first_difference(layers[*producer], stored.to_double(), tolerance(stored.type()));
    if (difference.empty() && !here.empty()) difference = "output " + std::to_string(i) + ": " + here;
  });
  return difference;
}

bool is_real(ElementType type) {
  return is_float(type) || type == ElementType::boolean;
}

ExpectedOutputs real_outputs(const Graph& graph, const Declared& model, const fs::path& folder) {
  ExpectedOutputs outputs;
  for_outputs(graph, model, folder, [&](std::size_t i, const StoredTensor& stored) {
    const auto producer = graph.producer(graph.outputs[i]);
    if (producer && is_real(stored.type())) outputs.insert_or_assign(*producer, stored);
  });
  return outputs;
}

std::string check_set(const Graph& graph, const Declared& model, const Inputs& inputs, const fs::path& set,
                      const fs::path& outputs, Outcome& outcome) {
  const bool are_the_suites = set == outputs;
  if (are_the_suites) {
    const std::string difference = check_formulas(graph, model, inputs, set);
    if (!difference.empty()) return difference;
  }
  if (graph.nodes.empty()) return "";
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("blocked:8+fma")));
  const BatchLayout layout = batch_layout(graph);
  const Trace whole = evaluator.run(graph, inputs);
  const Trace trace = slice(graph, layout, whole, 0, layout.batched ? whole.samples : 1);
  const std::string broken = are_the_suites ? check_layers(graph, trace, outcome) : "";
  return broken.empty() ? check_expected(graph, trace, real_outputs(graph, model, outputs), outcome) : broken;
}

std::vector<fs::path> sets_of(const fs::path& folder) {
  std::vector<fs::path> sets;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind("test_data_set_", 0) == 0) sets.push_back(entry.path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

/// `outputs` holds the case's sets with the outputs to check: the case itself, or another program's.
Outcome run_case(const fs::path& folder, const fs::path& outputs) {
  const fs::path file = folder / "model.onnx";
  const Declared model = declared(file);
  Outcome outcome;
  for (const fs::path& set : sets_of(folder)) {
    const Case one = load_case(file, model, set);
    if (!one.model.unsupported.empty())
      return unsupported(one.model.unsupported[0].op + ": " + one.model.unsupported[0].reason);
    const std::string broken = check_set(one.model.graph, model, one.arguments, set, outputs / set.filename(), outcome);
    if (!broken.empty()) return failed(broken);
  }
  return outcome.unbounded > 0 && outcome.bounded == 0 ? failed("no expected element has a bound") : outcome;
}

Outcome run_safely(const fs::path& folder, const fs::path& outputs) {
  try {
    return run_case(folder, outputs);
  } catch (const Unsupported& error) {
    return unsupported(error.what());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

// ---- what counts ----------------------------------------------------------------------------------------------------

std::ifstream open_list(const char* name) {
  return std::ifstream(std::string(DRIFTBOUND_SOURCE_DIR) + "/tests/suites/" + name);
}

const std::set<std::string>& listed_ops() {
  static const std::set<std::string> ops = [] {
    std::ifstream file = open_list("listed_ops.txt");
    std::set<std::string> names;
    for (std::string name; file >> name;) names.insert(name);
    return names;
  }();
  return ops;
}

/// A case that listed ops alone compute, from numbers to floats, where inputs that are no floats (axes, conditions,
/// shapes) are taken for constants, or from floats and truth values to truth values.
bool is_listed(const fs::path& folder) {
  const auto is_number = [](const std::optional<ElementType>& type) { return type.has_value(); };
  const Declared model = declared(folder / "model.onnx");
  if (!std::all_of(model.inputs.begin(), model.inputs.end(), is_number)) return false;
  if (model.outputs.empty() || !model.outputs[0] || !is_real(*model.outputs[0])) return false;
  const bool are_real = std::all_of(model.inputs.begin(), model.inputs.end(),
                                    [](const std::optional<ElementType>& type) { return is_real(*type); });
  if (!is_float(*model.outputs[0]) && !are_real) return false;
  return std::all_of(model.ops.begin(), model.ops.end(),
                     [](const std::string& op) { return listed_ops().count(op) != 0; });
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

/// Names of cases that need not pass; `*` stands for anything.
std::vector<std::string> patterns_of(const char* list) {
  std::vector<std::string> patterns;
  std::ifstream file = open_list(list);
  for (std::string line; std::getline(file, line);) patterns.push_back(line.substr(0, line.find(' ')));
  return patterns;
}

bool is_named(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

double median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What became of cases.
struct Tally {
  std::vector<std::string> exceptions;
  std::size_t listed = 0, passed = 0, unsupported = 0, excepted = 0, failed = 0;
  std::size_t others_passed = 0, others_unsupported = 0, without_bound = 0;
  std::vector<double> expected, layers;

  void add(const std::string& name, bool is_one_of_the_listed, const Outcome& outcome) {
    const bool passes = outcome.kind == Outcome::Kind::passed, refused = outcome.kind == Outcome::Kind::unsupported;
    const bool fails = is_one_of_the_listed ? !passes && !is_named(exceptions, name) : !passes && !refused;
    failed += fails ? 1 : 0;
    if (is_one_of_the_listed) {
      ++listed;
      passed += passes ? 1 : 0;
      unsupported += refused ? 1 : 0;
      excepted += !passes && !fails ? 1 : 0;
    } else {
      others_passed += passes ? 1 : 0;
      others_unsupported += refused ? 1 : 0;
    }
    without_bound += outcome.unbounded;
    expected.insert(expected.end(), outcome.expected.begin(), outcome.expected.end());
    layers.insert(layers.end(), outcome.layers.begin(), outcome.layers.end());
    if (!passes && (fails || is_one_of_the_listed))
      std::printf("  %s %s: %s\n", fails ? "FAILED     " : "excepted   ", name.c_str(), outcome.reason.c_str());
  }

  void add(const Tally& other) {
    for (const auto member : {&Tally::listed, &Tally::passed, &Tally::unsupported, &Tally::excepted, &Tally::failed,
                              &Tally::others_passed, &Tally::others_unsupported, &Tally::without_bound})
      this->*member += other.*member;
    expected.insert(expected.end(), other.expected.begin(), other.expected.end());
    layers.insert(layers.end(), other.layers.begin(), other.layers.end());
  }

  double percentage() const {
    return listed == 0 ? 100.0 : 100.0 * static_cast<double>(passed) / static_cast<double>(listed);
  }

  void print(const std::string& name) const {
    std::printf("| %s | %zu | %zu | %.1f | %zu | %zu | %zu | %zu, %zu | %.1f of %zu | %zu | %.1f of %zu |\n",
                name.c_str(), listed, passed, percentage(), unsupported, excepted, failed, others_passed,
                others_unsupported, median(expected), expected.size(), without_bound, median(layers), layers.size());
  }
};

constexpr const char* table_head =
    "| suite | listed | passed | % | unsupported | excepted | failed | others: passed, unsupported "
    "| median bound/error of expected elements | without bound | … of the layers' elements |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";

/// `outputs`: empty, or a folder with outputs of another program, by case; other cases are left out.
Tally run_suite(const fs::path& suite, const fs::path& outputs) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(suite)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  Tally tally;
  tally.exceptions = patterns_of("exceptions.txt");
  for (const fs::path& folder : folders) {
    const fs::path found = outputs.empty() ? folder : outputs / folder.filename();
    if (fs::is_directory(found)) tally.add(folder.filename().string(), is_listed(folder), run_safely(folder, found));
  }
  return tally;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> suites(argv + 1, argv + argc);
  fs::path outputs;
  if (suites.size() >= 2 && suites[0] == "--outputs") {
    outputs = suites[1];
    suites.erase(suites.begin(), suites.begin() + 2);
  }
  if (suites.empty()) suites = suites_here();
  if (suites.empty()) {
    std::printf("skipped: no suite here; set DRIFTBOUND_TEST_DATA, or install libonnx-testdata\n");
    return 77;
  }
  Tally all;
  std::vector<Tally> tallies;
  for (const fs::path& suite : suites) {
    tallies.push_back(run_suite(suite, outputs));
    all.add(tallies.back());
  }
  std::fputs(table_head, stdout);
  for (std::size_t i = 0; i < suites.size(); ++i) tallies[i].print(suites[i].filename().string());
  all.print("all");
  const bool is_enough = all.passed > 0 && (!outputs.empty() || all.percentage() >= 95.0);
  if (!is_enough) std::printf("fewer than 95 %% of the listed cases pass\n");
  return all.failed == 0 && is_enough ? 0 : 1;
}
