#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "analysis/progress.hpp"
#include "driftbound/evaluate/cuda.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/load.hpp"
#include "driftbound/trace/matrix_units.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::cli {

/// Exit statuses shared by every verb; those of a verb's own verdict are its own.
inline constexpr int exit_ok = 0;
inline constexpr int exit_bad_input = 3;
inline constexpr int exit_not_available = 4;
inline constexpr int exit_interrupted = 130;

/// As many threads as asked for, or as there are cores where `asked` is 0.
int thread_count(int asked);

/// An option whose default the help shows, checked.
template <class T>
CLI::Option* add_option(CLI::App& app, const std::string& names, T& value, const std::string& about,
                        const CLI::Validator& check) {
  return app.add_option(names, value, about)->check(check)->capture_default_str();
}
/// Devices whose matrix units are simulated.
std::vector<std::string> names_of_devices();

/// The model that a verb runs.
void add_model(CLI::App& app, std::string& model);

/// Where the samples of a run come from.
struct InputOptions {
  std::string file;
  std::string generator = "uniform";
  std::int64_t samples = 100;
  std::uint64_t seed = 1;
  std::string domain = "-1:1";
  std::vector<std::string> shapes;  ///< of generated inputs: "x=1x3x48x320"

  void add_to(CLI::App& app);
  /// Throws:    InvalidArgument where a file is given and so is how to generate samples
  void check(const CLI::App& app) const;
  Inputs load(const Graph& graph) const;
  /// The inputs of a model that leaves extents open or computes with integers: those of the file, else generated ones.
  /// Throws:    as load(); Unsupported where an extent stays open
  Inputs load_given(const ModelDescription& model) const;
};

/// The device that the backend "sim" simulates, and what kernels do with its matrix unit.
struct DeviceOptions {
  std::string name;
  UnitUse use;
  std::string rounded;  ///< "parts" or "sums"; empty: nothing is

  void add_to(CLI::App& app);
  bool is_given() const { return !name.empty() || !rounded.empty() || !(use == UnitUse()); }
  ArithmeticModel arithmetic(const std::string& of_operands, const SummationOrder& order) const;
};

/// Which arithmetic runs the model, and how.
struct RunSettings {
  std::string backend = "auto";
  DeviceOptions device;
  std::string arithmetic;  ///< empty: the model's own type
  std::string store;       ///< format of results: a name, or "declared"; empty: declared, but for --arithmetic fp64
  std::string gemm = "auto";
  std::string algorithm;  ///< of cuBLASLt: a number, or "all"; empty: 0
  std::string order;      ///< empty: blocked:8+fma
  std::string rows;       ///< empty: all are recorded
  std::int64_t batch = 0;
  int threads = 0;

  void add_to(CLI::App& app);
  /// Backend, arithmetic, product and order alone.
  void add_arithmetic_to(CLI::App& app);
  int thread_count() const { return cli::thread_count(threads); }
  /// Samples evaluated together: as asked, else all up to 4096, so that long runs can show progress and be stopped.
  std::int64_t batch_for(std::int64_t samples) const;
  /// Throws:    InvalidArgument where options contradict each other, NotAvailable for backends this version lacks
  void check() const;
  /// Sets the formats in which results are stored: as asked, else as the model declares them.
  /// Throws:    InvalidArgument for one format where the model casts between several
  void store_results(const Graph& graph, ArithmeticModel& arithmetic_of_run) const;
  /// Throws:    NotAvailable for a backend this machine lacks; InvalidArgument for all algorithms
  Evaluator evaluator_for(const Graph& graph) const;
  /// The algorithms that cuBLASLt offers for a product of float32 matrices, in words; empty where it does not multiply.
  /// Throws:    as evaluator_for
  std::vector<std::string> algorithms_for(std::int64_t m, std::int64_t k, std::int64_t n) const;

private:
  bool asks_for_cublas() const;
  SummationOrder summation_order() const;
  CudaOptions cuda_options_for(const ArithmeticModel& arithmetic_of_run) const;
};

/// Bytes that judging from the input on may take: as --memory says, else half of what programs may take without others
/// giving any back; 0 where the system does not say.
/// Throws:    InvalidArgument where `asked` is no number of bytes
std::uint64_t memory_for(const std::string& asked);
/// How many numbers a recorded network may have so that judging it from the input on takes so much memory, roughly.
std::int64_t numbers_within(std::uint64_t memory);

/// Refuses options that would say nothing beside `given`.
/// Throws:    InvalidArgument naming both
void require_without(const CLI::App& app, const std::string& given, std::initializer_list<const char*> others,
                     const std::string& advice);
/// Refuses an option that says nothing where none of `needed` is given.
/// Throws:    InvalidArgument naming them
void require_with(const CLI::App& app, const std::string& option, std::initializer_list<const char*> needed,
                  const std::string& advice);

/// A model, and the files that it was read from.
struct LoadedModel {
  Graph graph;
  std::string sha256;                   ///< of the file itself
  std::vector<std::string> data_files;  ///< others, which hold weights
  std::vector<std::string> left_out;    ///< nodes that are not supported, behind outputs that are left out
  std::optional<Inputs> inputs;  ///< where the graph depends on them: those of the run, and what follows from them
};

/// Describes a model by its file alone where that is all a run needs; else for the inputs that a run is given: those of
/// a trace, those of a file, or generated ones.
/// Throws:    what describe_model and reading inputs throw
/// `requires_shapes`: whether extents that stay open are refused even where nodes are not supported.
ModelDescription describe_for_run(const std::string& file, const InputOptions& inputs, const std::string& trace = "",
                                  bool requires_shapes = false);

/// Loads a model that a run can judge: finite weights, and an open axis 0 only where it counts samples. `inputs` of a
/// run, or its trace, as in describe_for_run; null: the file alone says what is computed.
/// Throws:    what describe_for_run throws, InvalidArgument, Unsupported naming the node
LoadedModel load_for_run(const std::string& file, const InputOptions* inputs = nullptr, const std::string& trace = "");

/// Runs a model on the inputs asked for, with progress on a terminal.
/// Throws:    InvalidArgument (inputs that are not finite), Interrupted, what loading and evaluating throw
Trace run_model(const LoadedModel& model, const InputOptions& inputs, const RunSettings& run, bool quiet);

/// A run of a model whose samples are evaluated when they are asked for, some together, and not kept. Its numbers are
/// those of run_model().
class RunOnDemand {
public:
  /// Throws:    as run_model()
  RunOnDemand(const LoadedModel& model, const InputOptions& inputs, const RunSettings& run);
  /// The run without its layers.
  const Trace& about() const { return about_; }
  std::int64_t at_once() const { return at_once_; }
  /// Samples [first, first + count) as slice() gives them.
  Trace part(std::int64_t first, std::int64_t count);

private:
  void evaluate(std::int64_t first, std::int64_t count);

  const Graph& graph_;
  BatchLayout layout_;
  Evaluator evaluator_;
  RunOptions options_;
  std::int64_t at_once_ = 1;
  Trace about_, evaluated_;
  std::int64_t first_ = 0;  ///< sample of `evaluated_`
};

/// Refuses options and arguments that were given as empty text: they would be taken for left out.
/// Throws:    InvalidArgument naming the option
void require_filled(const CLI::App& app);

/// What is wrong with the first weight that is NaN or infinite; empty where none is.
std::string non_finite_weight(const Graph& graph);

/// Refuses NaN and infinities in inputs, and inputs beyond their type in the model, naming file, tensor and what to do.
/// Throws:    InvalidArgument
void require_finite_inputs(const Graph& graph, const Inputs& inputs, const std::string& where);

/// SHA-256 over names, shapes and bytes of the input tensors.
std::string hash_inputs(const Inputs& inputs);

/// Set by SIGINT and SIGTERM; long work ends at the next block.
bool interrupted();
void catch_interrupts();

/// Takes how far long work has come, as Progress::update does, and says whether it goes on.
inline auto shown_by(analysis::Progress& progress) {
  return [&progress](auto... counts) {
    progress.update(counts...);
    return !interrupted();
  };
}

}  // namespace driftbound::cli
