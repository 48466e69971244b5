#include "cli/common.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>
#include <ctime>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

#include "analysis/progress.hpp"
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
  return InputDistribution::segment;
}

double parse_number(std::string_view text, std::string_view whole, std::string_view option) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    throw InvalidArgument(
        fmt::format("{} '{}': '{}' is not a finite number; write lo:hi or lo:hi,lo:hi,…", option, whole, text));
  return value;
}

std::int64_t first_non_finite(const StoredTensor& tensor) {
  const Tensor<double> values = tensor.to_double();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values.values[i])) return static_cast<std::int64_t>(i);
  return -1;
}

constexpr const char* default_order = "blocked:8+fma";

std::string default_arithmetic(const Graph& graph) {
  return graph.working_type() == ElementType::f64 ? "fp64" : "fp32";
}

}  // namespace

CLI::Validator counts() {
  static constexpr std::int64_t most = std::int64_t{1} << 40;
  const auto complaint = [](const std::string& text) -> std::string {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_integer = error == std::errc{} && end == text.data() + text.size();
    if (is_integer && number >= 1 && number <= most) return "";
    return fmt::format("'{}' is not an integer from 1 to {}, written in digits alone", text, most);
  };
  return CLI::Validator(complaint, "a number from 1 on");
}

CLI::Validator seeds() {
  const auto complaint = [](const std::string& text) -> std::string {
    std::uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc{} && end == text.data() + text.size()) return "";
    return fmt::format("'{}' is not an integer from 0 to {}", text, std::numeric_limits<std::uint64_t>::max());
  };
  return CLI::Validator(complaint, "");
}

void InputOptions::add_to(CLI::App& app) {
  app.add_option("INPUTS", file, "Inputs: .npy, .npz, .safetensors or .csv (generated where left out)");
  app.add_option("--inputs", generator, "Generator where no file is given")
      ->check(CLI::IsMember({"uniform", "normal", "grid", "segment"}))
      ->capture_default_str();
  app.add_option("--samples", samples, "Samples to generate")->check(counts())->capture_default_str();
  app.add_option("--seed", seed, "Seed of the generator")->check(seeds())->capture_default_str();
  app.add_option("--domain", domain, "lo:hi, or lo:hi,lo:hi,… one a coordinate (the last repeats)")
      ->capture_default_str();
}

void InputOptions::check(const CLI::App& app) const {
  if (!file.empty())
    require_without(app, "INPUTS", {"--inputs", "--samples", "--seed", "--domain"},
                    "the samples are those of the file; leave one of the two out");
}

Inputs InputOptions::load(const Graph& graph) const {
  if (!file.empty()) return read_inputs(graph, file);
  InputGenerator how;
  how.distribution = distribution_of(generator);
  how.samples = samples;
  how.seed = seed;
  how.domain = parse_domain(domain);
  Inputs generated = generate_inputs(graph, how);
  require_samples_apart(graph, sample_count(graph, batch_layout(graph), generated));
  return generated;
}

void RunSettings::add_arithmetic_to(CLI::App& app) {
  app.add_option("--backend", backend, "What runs the model")
      ->check(CLI::IsMember({"auto", "cpu", "sim", "cuda"}))
      ->capture_default_str();
  app.add_option("--arithmetic", arithmetic, "Arithmetic of the run (default: fp64 for fp64 models, else fp32)")
      ->check(CLI::IsMember({"fp64", "fp32", "tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2"}));
  app.add_option("--gemm", gemm, "What multiplies matrices on a GPU (auto: ordered with --order, else cublas)")
      ->check(CLI::IsMember({"auto", "cublas", "cublas-pedantic", "ordered"}))
      ->capture_default_str();
  app.add_option("--order", order,
                 "Order of summation: sequential, pairwise, blocked:B, split-k:S, each with +fma or without")
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
  return gemm == "cublas" || gemm == "cublas-pedantic";
}

SummationOrder RunSettings::summation_order() const {
  try {
    return parse_summation_order(order.empty() ? default_order : order);
  } catch (const InvalidArgument&) {  // names orders too that are none of runs
    throw InvalidArgument(fmt::format(
        "--order '{}': there is no such order of summation; runs have: sequential, pairwise, blocked:B, split-k:S (B "
        "and S from 1 on), each also with +fma",
        order));
  }
}

void RunSettings::check() const {
  if (backend == "sim")
    throw NotAvailable(
        "--backend sim: this version has no tensor-core simulator; --backend cpu runs tf32, bf16 and fp16 with "
        "rounded operands and float32 sums");
  if (asks_for_cublas() && backend == "cpu")
    throw InvalidArgument(
        fmt::format("--gemm {}: cuBLAS runs on a GPU, not with --backend cpu; the CPU is always --gemm ordered", gemm));
  if (asks_for_cublas() && !order.empty())
    throw InvalidArgument(fmt::format(
        "--gemm {}: cuBLAS chooses its order of summation itself; leave --order out, or use --gemm ordered", gemm));
}

Evaluator RunSettings::cuda_evaluator_for(const std::string& arithmetic_name) const {
  CudaOptions options;
  options.arithmetic = arithmetic_name;
  options.order = summation_order();
  const bool is_ordered = gemm == "ordered" || (gemm == "auto" && !order.empty());
  options.product = is_ordered                  ? CudaProduct::ordered
                    : gemm == "cublas-pedantic" ? CudaProduct::vendor_pedantic
                                                : CudaProduct::vendor;
  return cuda_evaluator(options);
}

Evaluator RunSettings::evaluator_for(const Graph& graph) const {
  check();
  const std::string name = arithmetic.empty() ? default_arithmetic(graph) : arithmetic;
  if (backend == "cuda" || asks_for_cublas()) return cuda_evaluator_for(name);
  if (backend == "auto") {
    try {
      return cuda_evaluator_for(name);
    } catch (const NotAvailable&) {     // no module or no GPU: the CPU it is
    } catch (const InvalidArgument&) {  // a variable that changes cuBLAS, which nobody asked for
      if (gemm != "auto" || !order.empty()) throw;
    }
  }
  return cpu_evaluator(cpu_arithmetic(name, summation_order()));
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
  for (const CLI::Option* option : app.get_options())
    for (const std::string& text : option->results())
      if (text.empty() && option->get_items_expected_max() > 0)
        throw InvalidArgument(fmt::format("{}: {} is given as empty text; name what is meant, or leave it out",
                                          app.get_name(), option->get_name()));
}

LoadedModel load_for_run(const std::string& file) {
  ModelDescription model = describe_model(file);
  require_supported(model);
  const Graph& graph = model.graph;
  require_finite_weights(graph);
  require_samples_apart(graph, 1);
  LoadedModel loaded{std::move(model.graph), sha256_of_file(file), {}};
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  for (const DataFile& data : model.data_files) loaded.data_files.push_back((folder / data.location).string());
  return loaded;
}

void require_distinct(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<std::filesystem::path> taken;
  // absolute: what does not exist has no canonical folder otherwise
  const auto resolved = [](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(target_of(name)));
  };
  for (const std::string& name : inputs)
    if (!name.empty()) taken.push_back(resolved(name));
  for (const std::string& name : outputs) {
    if (name.empty() || name == "-" || (std::filesystem::exists(name) && !std::filesystem::is_regular_file(name)))
      continue;
    if (std::find(taken.begin(), taken.end(), resolved(name)) != taken.end())
      throw InvalidArgument(
          fmt::format("{}: would replace an input or another output of this run; choose another name", name));
    taken.push_back(resolved(name));
  }
}

void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw FileError("standard output cannot be written (disk full, or closed)");
}

Trace run_model(const Graph& graph, const std::string& model_sha256, const InputOptions& inputs, const RunSettings& run,
                bool quiet) {
  const Inputs data = inputs.load(graph);
  require_finite_inputs(graph, data, inputs.file.empty() ? "generated inputs" : inputs.file);
  analysis::Progress progress("evaluating", !quiet);
  RunOptions options;
  options.batch = run.batch_for(sample_count(graph, batch_layout(graph), data));
  options.threads = run.thread_count();
  options.rows = parse_rows(run.rows, sample_count(graph, batch_layout(graph), data));
  options.progress = [&](std::int64_t done, std::int64_t all) {
    progress.update(done, all);
    return !interrupted();
  };
  Trace trace = run.evaluator_for(graph).run(graph, data, options);
  trace.model_sha256 = model_sha256;
  return trace;
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

void require_finite_weights(const Graph& graph) {
  const std::string complaint = non_finite_weight(graph);
  if (!complaint.empty()) throw InvalidArgument(graph.source + ": " + complaint);
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
    if (!is_float(tensor.type())) continue;
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

std::vector<std::pair<double, double>> parse_domain(const std::string& text, std::string_view option) {
  std::vector<std::pair<double, double>> domain;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos)
      throw InvalidArgument(fmt::format("{} '{}': '{}' lacks a ':'; write lo:hi or lo:hi,lo:hi,…", option, text, part));
    domain.emplace_back(parse_number(part.substr(0, colon), text, option),
                        parse_number(part.substr(colon + 1), text, option));
    if (comma == std::string_view::npos) return domain;
    rest.remove_prefix(comma + 1);
  }
}

namespace {

/// "first", "first:last" or "first:last:step" as three numbers.
std::array<std::int64_t, 3> parse_range(std::string_view part, const std::string& whole) {
  constexpr std::int64_t largest = std::int64_t{1} << 40;
  std::array<std::int64_t, 3> numbers = {0, 0, 1};
  std::size_t given = 0;
  for (std::string_view rest = part; given < numbers.size(); ++given) {
    const std::size_t colon = rest.find(':');
    const std::string_view text = rest.substr(0, colon);
    std::int64_t& number = numbers[given];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < 0 || number > largest) break;
    if (colon == std::string_view::npos) {
      if (given == 0) numbers[1] = numbers[0] + 1;
      if (numbers[1] > numbers[0] && numbers[2] > 0) return numbers;
      break;
    }
    rest.remove_prefix(colon + 1);
  }
  throw InvalidArgument(fmt::format(
      "--rows '{}': '{}' is neither a number nor a range first:last[:step] with first < last", whole, part));
}

}  // namespace

std::vector<std::int64_t> parse_rows(const std::string& text, std::int64_t samples) {
  std::vector<std::int64_t> rows;
  if (text.empty()) return rows;
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const auto [first, last, step] = parse_range(rest.substr(0, comma), text);
    if (last > samples)
      throw InvalidArgument(fmt::format("--rows '{}': there are {} samples, counted from 0", text, samples));
    if (!rows.empty() && first <= rows.back())
      throw InvalidArgument(fmt::format("--rows '{}': {} follows {}; rows must ascend", text, first, rows.back()));
    for (std::int64_t row = first; row < last; row += step) {
      rows.push_back(row);
      if (step > last - row) break;
    }
    if (comma == std::string_view::npos) return rows;
    rest.remove_prefix(comma + 1);
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

std::filesystem::path target_of(const std::filesystem::path& file) {
  constexpr int most_links = 40;
  std::error_code error;
  if (std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file)) return file;
  std::filesystem::path target = file;
  for (int links = 0; std::filesystem::is_symlink(target); ++links) {
    if (links == most_links) throw FileError(fmt::format("{}: too many symbolic links", file.string()));
    target = target.parent_path() / std::filesystem::read_symlink(target);
  }
  return target;
}

void require_writable(const std::filesystem::path& name) {
  if (name.empty()) return;
  const std::filesystem::path file = target_of(name);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder))
    throw FileError(fmt::format("{}: cannot be written: there is no folder '{}'", file.string(), folder.string()));
  if (std::filesystem::is_directory(file))
    throw FileError(fmt::format("{}: cannot be written: it is a folder", file.string()));
  if (access(folder.c_str(), W_OK) != 0)
    throw FileError(
        fmt::format("{}: cannot be written: no permission to write in '{}'", file.string(), folder.string()));
}

void require_tensor_file(const std::string& file, const char* option) {
  std::string extension = std::filesystem::path(file).extension().string();
  for (char& letter : extension) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  for (const std::string_view other : {".npz", ".npy", ".csv", ".json", ".html", ".xml", ".onnx"})
    if (extension == other)
      throw InvalidArgument(
          fmt::format("{} {}: what is written there is a .safetensors file; name it so", option, file));
}

void write_whole(const std::filesystem::path& name, const std::string& text) {
  require_writable(name);
  const std::filesystem::path file = target_of(name);
  if (std::filesystem::exists(file) &&
      !std::filesystem::is_regular_file(file)) {  // a device or a pipe: no renaming over it
    std::ofstream device(file, std::ios::binary);
    device << text << std::flush;
    if (!device) throw FileError(fmt::format("{}: cannot be written", file.string()));
    return;
  }
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.tmp", getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (std::filesystem::exists(file))  // who may read it stays as it is, where the file system knows such a thing
    std::filesystem::permissions(temporary, std::filesystem::status(file).permissions(), error);
  error.clear();
  if (out) std::filesystem::rename(temporary, file, error);
  if (!out || error) {
    std::filesystem::remove(temporary, error);
    throw FileError(fmt::format("{}: cannot be written (disk full, or no permission)", file.string()));
  }
}

bool interrupted() {
  return interrupt_flag != 0;
}

void catch_interrupts() {
  std::signal(SIGINT, remember_interrupt);
  std::signal(SIGTERM, remember_interrupt);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of writing
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace driftbound::cli
