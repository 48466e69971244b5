#include "cli/common.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/parse.hpp"
#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

volatile std::sig_atomic_t interrupt_flag = 0;
extern "C" void remember_interrupt(int signal) {
  interrupt_flag = 1;
  std::signal(signal, SIG_DFL);  // a second one ends the program at once
}

InputDistribution distribution_of(const std::string& name) {
  if (name == "uniform") return InputDistribution::uniform;
  if (name == "normal") return InputDistribution::normal;
  if (name == "grid") return InputDistribution::grid;
  return name == "segment" ? InputDistribution::segment : InputDistribution::uniform;  // tokens: of integers alone
}

std::int64_t first_non_finite(const StoredTensor& tensor) {
  const Tensor<double> values = tensor.to_double();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values.values[i])) return static_cast<std::int64_t>(i);
  return -1;
}

/// A mapped file that another program cuts while it is read.
extern "C" void report_cut_file(int) {
  constexpr char message[] = "driftbound: a file was cut by another program while it was read; copy it first\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message, sizeof message - 1);
  ::_exit(exit_bad_input);
}

constexpr const char* default_order = "blocked:8+fma";

std::string default_arithmetic(const Graph& graph) {
  return graph.working_type() == ElementType::f64 ? "fp64" : "fp32";
}

/// Whether the model declares a result in a float type that lacks some of the format's numbers.
bool has_narrower_result(const Graph& graph, FormatId wide) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const std::optional<FormatId> declared = float_format(graph.value(node.output).type);
    return declared && !holds_all_of(format(*declared), format(wide));
  });
}

/// Whether the model declares its results in more than one float type.
bool mixes_types(const Graph& graph) {
  std::optional<ElementType> common;
  for (const Node& node : graph.nodes) {
    const ElementType type = graph.value(node.output).type;
    if (!is_float(type)) continue;
    if (common.value_or(type) != type) return true;
    common = type;
  }
  return false;
}

}  // namespace

void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model, "Model: .onnx, or a .npz layer dump")->required();
}

void InputOptions::add_to(CLI::App& app) {
  app.add_option("INPUTS", file, "Inputs: .npy, .npz, .safetensors or .csv (generated where left out)");
  add_option(app, "--inputs", generator, "Generator where no file is given",
             CLI::IsMember({"uniform", "normal", "grid", "segment", "tokens"}));
  add_option(app, "--samples", samples, "Samples to generate", counts());
  add_option(app, "--seed", seed, "Seed of the generator", seeds());
  app.add_option("--domain", domain, "lo:hi, or lo:hi,lo:hi,… one a coordinate (the last repeats)")
      ->capture_default_str();
  app.add_option("--shape", shapes, "Shape of an input to generate, where the model leaves it open: x=1x3x48x320")
      ->allow_extra_args(false);
}

void InputOptions::check(const CLI::App& app) const {
  if (!file.empty())
    require_without(app, "INPUTS", {"--inputs", "--samples", "--seed", "--domain", "--shape"},
                    "the samples are those of the file; leave one of the two out");
}

namespace {

InputGenerator generator_of(const InputOptions& options) {
  InputGenerator how;
  how.distribution = distribution_of(options.generator);
  how.samples = options.samples;
  how.seed = options.seed;
  how.domain = parse_domain(options.domain);
  return how;
}

}  // namespace

Inputs InputOptions::load(const Graph& graph) const {
  if (!file.empty()) return read_inputs(graph, file);
  if (!shapes.empty())
    throw InvalidArgument("--shape: the model leaves no extent open but that of the samples; leave it out");
  Inputs generated = generate_inputs(graph, generator_of(*this));
  require_samples_apart(graph, sample_count(graph, batch_layout(graph), generated));
  return generated;
}

Inputs InputOptions::load_given(const ModelDescription& model) const {
  if (!file.empty()) return read_given_inputs(model.graph, file);
  std::vector<std::pair<std::string, Shape>> given_shapes;
  for (const std::string& text : shapes) given_shapes.push_back(parse_shape(text));
  InputGenerator how = generator_of(*this);
  how.index_limits = model.index_limits;
  return generate_inputs(inputs_with_shapes(model.graph, given_shapes), how);
}

std::vector<std::string> names_of_devices() {
  std::vector<std::string> names;
  for (const SimulatedDevice& device : simulated_devices()) names.emplace_back(device.name);
  return names;
}

void DeviceOptions::add_to(CLI::App& app) {
  app.add_option("--device", name, "Device that the backend sim simulates")->check(CLI::IsMember(names_of_devices()));
  app.add_option("--block", use.block, "Products that its matrix unit adds in one step (default: the most it can)")
      ->check(CLI::Range(1, 64));
  app.add_option("--promotion", use.promotion,
                 "Products after which a sum of its matrix unit is added to a float32 outside (default: never)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--round-parts", rounded,
                 "Round parts of sums to the operands' format before they are added, or parts and their sums")
      ->check(CLI::IsMember({"parts", "sums"}));
}

ArithmeticModel DeviceOptions::arithmetic(const std::string& of_operands, const SummationOrder& order) const {
  UnitUse how = use;
  how.rounds_parts = !rounded.empty();
  how.rounds_sums = rounded == "sums";
  return simulated_arithmetic(name, of_operands, order, how);
}

void RunSettings::add_arithmetic_to(CLI::App& app) {
  add_option(app, "--backend", backend, "What runs the model", CLI::IsMember({"auto", "cpu", "sim", "cuda"}));
  device.add_to(app);
  app.add_option("--arithmetic", arithmetic, "Arithmetic of the run (default: fp64 for fp64 models, else fp32)")
      ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}));
  app.add_option("--store", store,
                 "Format that results are stored in between nodes (default: as the model declares them; not with "
                 "--arithmetic fp64)")
      ->check(CLI::IsMember({"declared", "fp32", "bf16", "fp16"}));
  add_option(app, "--gemm", gemm, "What multiplies matrices on a GPU (auto: ordered with --order, else cublas)",
             CLI::IsMember({"auto", "cublas", "cublas-pedantic", "cublaslt", "ordered"}));
  app.add_option("--algorithm", algorithm,
                 "With --gemm cublaslt: the algorithm of every product, by its number among those that cuBLASLt offers "
                 "(default: 0); of probe also all");
  app.add_option("--order", order,
                 "Order of summation: sequential, pairwise, blocked:B, split-k:S, each with +fma or without; of "
                 "simulated matrix units also balanced:R:M and lanes:PxR (docs/arithmetic.md)")
      ->default_str(default_order);
}

void RunSettings::add_to(CLI::App& app) {
  add_arithmetic_to(app);
  app.add_option("--rows", rows, "Samples to record, all being evaluated: 3,7 or first:last[:step] (default: all)");
  app.add_option("--batch", batch, "Samples evaluated together (default: all, up to 4096)")->check(counts());
  app.add_option("--threads", threads, "Threads (default: as many as there are cores)")->check(counts());
}

int thread_count(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::int64_t RunSettings::batch_for(std::int64_t samples) const {
  constexpr std::int64_t largest_default = 4096;
  return batch > 0 ? batch : std::min(samples, largest_default);
}

bool RunSettings::asks_for_cublas() const {
  return gemm == "cublas" || gemm == "cublas-pedantic" || gemm == "cublaslt";
}

SummationOrder RunSettings::summation_order() const {
  try {
    const bool is_simulated = backend == "sim";  // a chain of steps, or of multiply-adds
    return parse_summation_order(!order.empty() ? order : is_simulated ? "sequential+fma" : default_order);
  } catch (const InvalidArgument&) {  // names orders too that are none of runs
    throw InvalidArgument(
        fmt::format("--order '{}': there is no such order of summation; runs have: sequential, pairwise, blocked:B, "
                    "split-k:S, and on the CPU slices:R, balanced:R:M, lanes:PxR, halved, cascade:LxC (numbers from 1 "
                    "on), each also with +fma; docs/arithmetic.md says what they are",
                    order));
  }
}

void RunSettings::check() const {
  if (backend == "sim" && device.name.empty())
    throw InvalidArgument("--backend sim needs --device: " + fmt::format("{}", fmt::join(names_of_devices(), ", ")));
  if (backend != "sim" && device.is_given())
    throw InvalidArgument(
        "--device, --block, --promotion and --round-parts say what to simulate; add --backend sim, or leave them out");
  if (asks_for_cublas() && (backend == "cpu" || backend == "sim"))
    throw InvalidArgument(fmt::format(
        "--gemm {}: cuBLAS runs on a GPU, not with --backend {}; that is always --gemm ordered", gemm, backend));
  if (asks_for_cublas() && !order.empty())
    throw InvalidArgument(fmt::format(
        "--gemm {}: cuBLAS chooses its order of summation itself; leave --order out, or use --gemm ordered", gemm));
  if (!algorithm.empty() && gemm != "cublaslt")
    throw InvalidArgument(
        fmt::format("--algorithm {}: cuBLASLt has algorithms; add --gemm cublaslt, or leave it out", algorithm));
  if (!algorithm.empty() && algorithm != "all" && number_of<int>(algorithm).value_or(-1) < 0)
    throw InvalidArgument(fmt::format("--algorithm {}: give a number from 0 on, or all", algorithm));
}

void RunSettings::store_results(const Graph& graph, ArithmeticModel& of_run) const {
  const FormatId accumulator = of_run.accumulator;
  if (store.empty() || store == "declared") {
    const bool is_asked = store == "declared" || arithmetic != "fp64";
    of_run.stores_declared_types = is_asked && has_narrower_result(graph, accumulator);
    return;
  }
  of_run.output = find_format(store).value();
  const bool narrows = !holds_all_of(format(of_run.output), format(accumulator));
  if (narrows && mixes_types(graph))
    throw InvalidArgument(
        fmt::format("--store {}: the model casts between float types, so that it says itself what every result is "
                    "stored in; leave --store out (declared), or take --store fp32",
                    store));
}

CudaOptions RunSettings::cuda_options_for(const ArithmeticModel& of_run) const {
  CudaOptions options;
  options.arithmetic = of_run.name;
  options.stores_declared_types = of_run.stores_declared_types;
  options.output = of_run.output;
  options.order = summation_order();
  const bool is_ordered = gemm == "ordered" || (gemm == "auto" && !order.empty());
  options.product = is_ordered                  ? CudaProduct::ordered
                    : gemm == "cublas-pedantic" ? CudaProduct::vendor_pedantic
                    : gemm == "cublaslt"        ? CudaProduct::by_algorithm
                                                : CudaProduct::vendor;
  options.algorithm = number_of<int>(algorithm).value_or(0);
  return options;
}

Evaluator RunSettings::evaluator_for(const Graph& graph) const {
  check();
  if (algorithm == "all")
    throw InvalidArgument("--algorithm all: a run has one algorithm; give its number (probe takes all)");
  const std::string asked = arithmetic.empty() ? default_arithmetic(graph) : arithmetic;
  ArithmeticModel of_run =
      backend == "sim" ? device.arithmetic(asked, summation_order()) : cpu_arithmetic(asked, summation_order());
  store_results(graph, of_run);
  if (backend == "cuda" || asks_for_cublas()) return cuda_evaluator(cuda_options_for(of_run));
  if (backend == "auto") {
    try {
      return cuda_evaluator(cuda_options_for(of_run));
    } catch (const NotAvailable&) {     // no module or no GPU: the CPU it is
    } catch (const InvalidArgument&) {  // a variable that changes cuBLAS, which nobody asked for
      if (gemm != "auto" || !order.empty()) throw;
    }
  }
  return cpu_evaluator(of_run);
}

std::vector<std::string> RunSettings::algorithms_for(std::int64_t m, std::int64_t k, std::int64_t n) const {
  check();
  if (gemm != "cublaslt") return {};
  return cuda_algorithms(cuda_options_for(cpu_arithmetic(arithmetic.empty() ? "fp32" : arithmetic, {})), m, k, n);
}

namespace {

/// Bytes that programs may take without others giving any back; 0 where the system does not say.
std::uint64_t free_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

std::uint64_t memory_for(const std::string& asked) {
  return asked.empty() ? free_memory() / 2 : parse_bytes(asked, "--memory");
}

std::int64_t numbers_within(std::uint64_t memory) {
  constexpr std::uint64_t bytes_per_number = 512;  // two references and the bounds of a layer
  return static_cast<std::int64_t>(memory / bytes_per_number);
}

void require_without(const CLI::App& app, const std::string& given, std::initializer_list<const char*> others,
                     const std::string& advice) {
  if (app.count(given) == 0) return;
  for (const char* other : others)
    if (app.count(other) > 0)
      throw InvalidArgument(fmt::format("{}: {} and {} exclude each other; {}", app.get_name(), other, given, advice));
}

void require_with(const CLI::App& app, const std::string& option, std::initializer_list<const char*> needed,
                  const std::string& advice) {
  if (app.count(option) == 0) return;
  std::string names;
  for (const char* name : needed) {
    if (app.count(name) > 0) return;
    names += (names.empty() ? "" : " or ") + std::string(name);
  }
  throw InvalidArgument(fmt::format("{}: {} says nothing without {}; {}", app.get_name(), option, names, advice));
}

void require_filled(const CLI::App& app) {
  const auto check = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options())
      for (const std::string& text : option->results())
        if (text.empty() && option->get_items_expected_max() > 0)
          throw InvalidArgument(fmt::format("{}: {} is given as empty text; name what is meant, or leave it out",
                                            app.get_name(), option->get_name()));
  };
  check(app);
  for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) check(*group);
}

namespace {

/// Whether the file alone says what a run computes: every node is known, no input holds integers, and no extent but that
/// of the samples is open.
bool is_complete(const ModelDescription& model) {
  if (!model.unsupported.empty()) return false;
  for (const ValueId id : model.graph.inputs)
    if (!is_float(model.graph.value(id).type)) return false;
  try {
    batch_layout(model.graph);
  } catch (const Unsupported&) {
    return false;
  }
  return true;
}

/// A name of an extent that stays open in generated inputs; empty where all are given.
std::string open_input(const ModelDescription& model, const std::vector<std::string>& shapes) {
  for (const ValueId id : model.graph.inputs) {
    const Value& input = model.graph.value(id);
    const bool is_given = std::any_of(shapes.begin(), shapes.end(),
                                      [&](const std::string& text) { return parse_shape(text).first == input.name; });
    for (std::size_t axis = 1; axis < input.declared.size() && !is_given; ++axis)
      if (input.declared[axis].extent < 0) return input.name;
  }
  return "";
}

bool has_softmax(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node& node) { return std::holds_alternative<op::Softmax>(node.op); });
}

/// Whether some floats are minus infinity, as in a mask that is given.
bool holds_minus_infinity(const Inputs& inputs) {
  for (const auto& [name, tensor] : inputs.tensors) {
    if (!is_float(tensor.type())) continue;
    const std::vector<double> values = tensor.to_double().values;
    if (std::find(values.begin(), values.end(), -std::numeric_limits<double>::infinity()) != values.end()) return true;
  }
  return false;
}

}  // namespace

ModelDescription describe_for_run(const std::string& file, const InputOptions& inputs, const std::string& trace,
                                  bool requires_shapes) {
  ModelDescription model = describe_model(file);
  const bool generates = trace.empty() && inputs.file.empty();
  const auto given_data = [&] {
    return trace.empty() ? inputs.load_given(model) : read_given_inputs(model.graph, trace);
  };
  GivenInputs given;
  if (is_complete(model)) {
    if (generates || !has_softmax(model.graph)) return model;
    try {
      given.data = given_data();
    } catch (const Error&) {  // the reader of a complete model's inputs says what is wrong
      return model;
    }
    return holds_minus_infinity(given.data) ? describe_model(file, given) : std::move(model);
  }
  if (const std::string open = open_input(model, inputs.shapes); generates && !open.empty()) {
    if (requires_shapes || model.unsupported.empty())
      throw Unsupported(
          fmt::format("{}: input '{}' leaves extents open; say which ones to generate (--shape {}=1x3x48x320), "
                      "or give a file of inputs",
                      file, open, open));
    return model;
  }
  given.data = given_data();
  return describe_model(file, given);
}

LoadedModel load_for_run(const std::string& file, const InputOptions* inputs, const std::string& trace) {
  ModelDescription model = inputs != nullptr ? describe_for_run(file, *inputs, trace, true) : describe_model(file);
  const bool any_output = inputs != nullptr && !model.graph.outputs.empty();
  if (!any_output) require_supported(model);
  const Graph& graph = model.graph;
  if (const std::string complaint = non_finite_weight(graph); !complaint.empty())
    throw InvalidArgument(graph.source + ": " + complaint);
  require_samples_apart(graph, 1);
  LoadedModel loaded{std::move(model.graph), sha256_of_file(file), {}, {}, {}};
  if (!model.inputs.tensors.empty()) loaded.inputs = std::move(model.inputs);
  for (const UnsupportedNode& node : model.unsupported)
    loaded.left_out.push_back(fmt::format("{} ('{}'): {}", node.op, node.node, node.reason));
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (const DataFile& data : model.data_files) loaded.data_files.push_back((folder / data.location).string());
  return loaded;
}

Trace run_model(const LoadedModel& model, const InputOptions& inputs, const RunSettings& run, bool quiet) {
  const Graph& graph = model.graph;
  const Inputs data = model.inputs ? *model.inputs : inputs.load(graph);
  require_finite_inputs(graph, data, inputs.file.empty() ? "generated inputs" : inputs.file);
  analysis::Progress progress("evaluating", !quiet);
  RunOptions options;
  const std::int64_t samples = sample_count(graph, batch_layout(graph), data);
  options.batch = run.batch_for(samples);
  options.threads = run.thread_count();
  options.rows = parse_rows(run.rows, samples);
  options.progress = shown_by(progress);
  Trace trace = run.evaluator_for(graph).run(graph, data, options);
  trace.model_sha256 = model.sha256;
  return trace;
}

RunOnDemand::RunOnDemand(const LoadedModel& model, const InputOptions& inputs, const RunSettings& run)
    : graph_(model.graph), layout_(batch_layout(model.graph)), evaluator_(run.evaluator_for(model.graph)) {
  constexpr std::int64_t few = 2048;
  about_.inputs = model.inputs ? *model.inputs : inputs.load(graph_);
  require_finite_inputs(graph_, about_.inputs, inputs.file.empty() ? "generated inputs" : inputs.file);
  about_.samples = sample_count(graph_, layout_, about_.inputs);
  about_.model_sha256 = model.sha256;
  about_.arithmetic = evaluator_.arithmetic();
  options_.batch = run.batch_for(about_.samples);
  options_.threads = run.thread_count();
  const std::int64_t batch = std::max<std::int64_t>(options_.batch, 1);
  at_once_ = layout_.batched ? batch * std::max<std::int64_t>(few / batch, 1) : 1;
  if (about_.samples > 0) part(0, 1);
}

Trace RunOnDemand::part(std::int64_t first, std::int64_t count) {
  const std::int64_t last = first_ + evaluated_.samples;
  if (first < first_ || first + count > last) evaluate(first, count);
  return slice(graph_, layout_, evaluated_, first - first_, count);
}

/// Batches begin where those of the whole run do.
void RunOnDemand::evaluate(std::int64_t first, std::int64_t count) {
  first_ = first / at_once_ * at_once_;
  const std::int64_t end = (first + count + at_once_ - 1) / at_once_ * at_once_;
  const Inputs data = slice(graph_, layout_, about_.inputs, first_, std::min(end, about_.samples) - first_);
  const bool was_changed = about_.provenance.observer_effect == ObserverEffect::changed;
  evaluated_ = evaluator_.run(graph_, data, options_);
  about_.provenance = evaluated_.provenance;
  if (was_changed) about_.provenance.observer_effect = ObserverEffect::changed;
}

std::string non_finite_weight(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::constant || !is_float(value.type)) continue;
    const std::int64_t at = first_non_finite(value.constant);
    if (at < 0) continue;
    std::string node = "no node";
    for (const Node& candidate : graph.nodes)
      for (ValueId input : candidate.inputs)
        if (&graph.values[input] == &value) node = fmt::format("node '{}'", candidate.name);
    return fmt::format(
        "weight '{}' (used by {}) is not finite at element {}; no statement about rounding is "
        "possible: repair or re-export the model",
        value.name, node, at);
  }
  return "";
}

namespace {

/// The largest number of the type that the model declares for an input.
double largest_of_input(const Graph& graph, const std::string& name) {
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const auto stored = value.name == name ? float_format(value.type) : std::nullopt;
    if (stored) return format(*stored).largest;
  }
  return std::numeric_limits<double>::max();
}

}  // namespace

void require_finite_inputs(const Graph& graph, const Inputs& inputs, const std::string& where) {
  for (const auto& [name, tensor] : inputs.tensors) {
    const bool is_input = std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                      [&, &of = name](ValueId id) { return graph.value(id).name == of; });
    if (!is_input || !is_float(tensor.type())) continue;  // a mask may hold minus infinity
    const double largest = largest_of_input(graph, name);
    const std::vector<double> values = tensor.to_double().values;
    const auto bad = std::find_if(values.begin(), values.end(), [&](double x) { return !(std::abs(x) <= largest); });
    if (bad == values.end()) continue;
    const std::string at = fmt::format("at element {} of shape {}", bad - values.begin(), to_string(tensor.shape()));
    if (!std::isfinite(*bad))
      throw InvalidArgument(fmt::format("{}: input '{}' is NaN or infinite {}; remove those samples", where, name, at));
    throw InvalidArgument(
        fmt::format("{}: input '{}' is {:.6g} {}, beyond the largest number of its type in the model, {:.6g}; remove "
                    "those samples",
                    where, name, *bad, at, largest));
  }
}

std::string hash_inputs(const Inputs& inputs) {
  std::string text;
  for (const auto& [name, tensor] : inputs.tensors) {
    const auto bytes = tensor.bytes();
    text += name + " " + std::string(name_of(tensor.type())) + " " + to_string(tensor.shape()) + " " +
            sha256_of(bytes) + "\n";
  }
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

bool interrupted() {
  return interrupt_flag != 0;
}

void catch_interrupts() {
  std::signal(SIGINT, remember_interrupt);
  std::signal(SIGTERM, remember_interrupt);
  std::signal(SIGBUS, report_cut_file);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of writing
}

}  // namespace driftbound::cli
