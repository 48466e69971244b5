#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::cli {

/// Exit statuses shared by every verb; those of a verb's own verdict are its own.
inline constexpr int exit_ok = 0;
inline constexpr int exit_bad_input = 3;
inline constexpr int exit_not_available = 4;
inline constexpr int exit_interrupted = 130;

/// As many threads as asked for, or as there are cores where `asked` is 0.
int thread_count(int asked);

/// Text that is an integer from 1 to 2^40.
CLI::Validator counts();
/// Text that is an integer of 64 bits without a sign.
CLI::Validator seeds();

/// Where the samples of a run come from.
struct InputOptions {
  std::string file;
  std::string generator = "uniform";
  std::int64_t samples = 100;
  std::uint64_t seed = 1;
  std::string domain = "-1:1";

  void add_to(CLI::App& app);
  /// Throws:    InvalidArgument where a file is given and so is how to generate samples
  void check(const CLI::App& app) const;
  Inputs load(const Graph& graph) const;
};

/// Which arithmetic runs the model, and how.
struct RunSettings {
  std::string backend = "auto";
  std::string arithmetic;  ///< empty: the model's own type
  std::string gemm = "auto";
  std::string order;  ///< empty: blocked:8+fma
  std::string rows;   ///< empty: all are recorded
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
  /// Throws:    NotAvailable for a backend this machine lacks
  Evaluator evaluator_for(const Graph& graph) const;

private:
  bool asks_for_cublas() const;
  SummationOrder summation_order() const;
  Evaluator cuda_evaluator_for(const std::string& arithmetic_name) const;
};

/// Refuses options that would say nothing beside `given`.
/// Throws:    InvalidArgument naming both
void require_without(const CLI::App& app, const std::string& given, std::initializer_list<const char*> others,
                     const std::string& advice);
/// Refuses an option that says nothing where none of `needed` is given.
/// Throws:    InvalidArgument naming them
void require_with(const CLI::App& app, const std::string& option, std::initializer_list<const char*> needed,
                  const std::string& advice);

/// Runs a model on the inputs asked for, with progress on a terminal.
/// Throws:    InvalidArgument (inputs that are not finite), Interrupted, what loading and evaluating throw
Trace run_model(const Graph& graph, const std::string& model_sha256, const InputOptions& inputs, const RunSettings& run,
                bool quiet);

/// Refuses options and arguments that were given as empty text: they would be taken for left out.
/// Throws:    InvalidArgument naming the option
void require_filled(const CLI::App& app);

/// A model, and the files that it was read from.
struct LoadedModel {
  Graph graph;
  std::string sha256;                   ///< of the file itself
  std::vector<std::string> data_files;  ///< others, which hold weights
};

/// Loads a model that a run can judge: finite weights, and an open axis 0 only where it counts samples.
/// Throws:    what load_model throws, InvalidArgument, Unsupported naming the node
LoadedModel load_for_run(const std::string& file);

/// Checks that no output would replace an input or another output. Empty names and "-" are skipped.
/// Throws:    InvalidArgument naming the file
void require_distinct(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

/// Throws:    FileError where standard output did not take everything
void flush_output();

/// What is wrong with the first weight that is NaN or infinite; empty where none is.
std::string non_finite_weight(const Graph& graph);

/// Refuses NaN and infinities in weights and inputs, and inputs beyond their type in the model, naming file, tensor and
/// what to do.
void require_finite_weights(const Graph& graph);
void require_finite_inputs(const Graph& graph, const Inputs& inputs, const std::string& where);

/// Throws:    InvalidArgument naming the option
std::vector<std::pair<double, double>> parse_domain(const std::string& text, std::string_view option = "--domain");

/// Rows by number and by range first:last[:step], the last excluded, comma-separated: "0:10000:157", "1,5,7:9".
/// Throws:    InvalidArgument where they do not ascend or there are no such samples
std::vector<std::int64_t> parse_rows(const std::string& text, std::int64_t samples);

/// SHA-256 over names, shapes and bytes of the input tensors.
std::string hash_inputs(const Inputs& inputs);

/// Writes a text file whole or not at all.
/// Throws:    FileError
void write_whole(const std::filesystem::path& file, const std::string& text);

/// What a symbolic link to a file, or to none yet, stands for: a file renamed over the link would replace it.
std::filesystem::path target_of(const std::filesystem::path& file);

/// Checks early that a file can be written where asked, so that no work is lost.
void require_writable(const std::filesystem::path& file);

/// Refuses a name that says another format than that of tensors, which traces and references are written in.
/// Throws:    InvalidArgument
void require_tensor_file(const std::string& file, const char* option);

/// Set by SIGINT and SIGTERM; long work ends at the next block.
bool interrupted();
void catch_interrupts();

std::string now_utc();

}  // namespace driftbound::cli
