#include "analysis/tolerance.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "cli/files.hpp"
#include "cli/outputs.hpp"
#include "cli/verbs.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/npy_header.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::cli {
namespace {

struct ToleranceSettings {
  std::string command;
  analysis::ToleranceRequest request;
  std::string input = "fp32", accumulator = "fp32", output, order;
  std::int64_t split_k = 0;
  std::vector<std::string> data;
  std::string elements;  ///< file for the tolerance of each element
  Outputs outputs;
};

/// Whether it is a format of blocks with a scale (Open Compute Project, Microscaling Formats 1.0).
bool has_scales(const std::string& name) {
  return name == "mxfp8" || name == "mxfp6" || name == "mxfp4";
}

/// Throws:    InvalidArgument
FormatId format_of(const std::string& name, const char* option) {
  for (const FormatId id : {FormatId::fp64, FormatId::fp32, FormatId::tf32, FormatId::bf16, FormatId::fp16,
                            FormatId::fp8_e4m3, FormatId::fp8_e5m2})
    if (name == format(id).name) return id;
  throw InvalidArgument(std::string("tolerance: ") + option + " " + name +
                        ": choose among fp64, fp32, tf32, bf16, fp16, fp8_e4m3, fp8_e5m2; of operands also mxfp8, "
                        "mxfp6, mxfp4");
}

/// [3, shape of the result] in float64: the exact results, the tolerances proven, and those at chance.
std::string npy_of(const analysis::OpTolerance& tolerance) {
  Shape shape = tolerance.exact.shape;
  shape.insert(shape.begin(), 3);
  std::string text = npy_header("<f8", shape);
  for (const Tensor<double>* part : {&tolerance.exact, &tolerance.proven, &tolerance.by_chance})
    text.append(reinterpret_cast<const char*>(part->values.data()), part->values.size() * sizeof(double));
  return text;
}

int run_tolerance(ToleranceSettings settings, const CLI::App& app) {
  const auto start = std::chrono::steady_clock::now();
  settings.outputs.check({settings.elements});
  analysis::ToleranceRequest& request = settings.request;
  if (has_scales(settings.input)) {
    request.scaled_input = settings.input;
    request.input = settings.data.empty() ? FormatId::bf16 : FormatId::fp32;
  } else {
    request.input = format_of(settings.input, "--in");
  }
  request.accumulator = format_of(settings.accumulator, "--acc");
  request.output = format_of(settings.output.empty() ? settings.accumulator : settings.output, "--out");
  if (!settings.order.empty() && settings.split_k > 0)
    throw InvalidArgument("tolerance: --order and --split-k both say in which order; leave one of them out");
  if (!settings.order.empty()) request.order = parse_summation_order(settings.order);
  if (settings.split_k > 0) request.order = {SummationOrder::Kind::split_k, settings.split_k, true};
  for (const char* option : {"--k", "--keys", "--magnitude", "--seed"})
    if (!settings.data.empty() && app.count(option) > 0)
      throw InvalidArgument(std::string("tolerance: ") + option +
                            " is for operands that are made, and --data gives them");
  for (const std::string& file : settings.data) request.data.push_back(read_array(file));
  if (settings.split_k > request.k && settings.data.empty())
    throw InvalidArgument("tolerance: --split-k is larger than --k: a sum has no more parts than terms");
  check_failure_probability(request.failure_probability);
  constexpr double largest_magnitude = 1e300;
  if (!(request.magnitude > 0.0) || !(request.magnitude <= largest_magnitude))
    throw InvalidArgument("--magnitude: give a number above 0, up to 1e300");
  request.threads = thread_count(request.threads);
  analysis::ToleranceReport report = analysis::answer(request);
  report.command = settings.command;
  report.date = now_utc();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const analysis::Document document = analysis::document_of(report);
  const auto save_elements = [&] {
    if (!settings.elements.empty()) write_whole(settings.elements, npy_of(report.parts.back().tolerance));
  };
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false}, save_elements);
  return document.exit_status;
}

Verb::Run add_tolerance(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<ToleranceSettings>();
  settings->command = command_line;
  analysis::ToleranceRequest& request = settings->request;
  std::string ops;
  for (const analysis::ToleranceOp& op : analysis::tolerance_ops())
    ops += (ops.empty() ? "" : ", ") + std::string(op.name);
  app.add_option("OP", request.op, "One of " + ops)->required();
  app.add_option("--k", request.k, "Length of the sum or row; attention: size of a head; all-reduce: ranks")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--keys", request.keys, "Attention: number of keys")->check(CLI::Range(1, 1 << 20));
  app.add_flag("--bias", request.has_bias, "A bias is added to the product");
  app.add_flag("--stored-inside", request.stores_inside,
               "Steps inside of an op store their results in the format of the results, as unfused kernels do");
  app.add_option("--in", settings->input, "Format of the operands")->capture_default_str();
  app.add_option("--acc", settings->accumulator, "Format of sums and of all steps inside")->capture_default_str();
  app.add_option("--out", settings->output, "Format of the results (default: that of the sums)");
  app.add_option("--magnitude", request.magnitude,
                 "Largest magnitude of the operands; standard deviation of normal ones")
      ->capture_default_str();
  app.add_option("--data", settings->data, "Operands (.npy), in order: bounds for these, element by element");
  app.add_option("--elements", settings->elements,
                 "Write exact results, tolerances proven and at chance, element by element, to this file (.npy)");
  app.add_option("--order", settings->order, "Order of the sums, as report takes it (default: any)");
  app.add_option("--split-k", settings->split_k, "So many parts of the sum, each added up in turn")
      ->check(CLI::PositiveNumber);
  app.add_option("--functions", request.functions, "Library whose functions are called (inspect --functions)")
      ->capture_default_str();
  app.add_option("--failure-probability", request.failure_probability, "Of the tolerance at chance")
      ->capture_default_str();
  app.add_option("--seed", request.seed, "Of normal data")->capture_default_str();
  add_option(app, "--threads", request.threads, "Threads (0: as many as cores)", CLI::NonNegativeNumber);
  settings->outputs.add_json_to(app,
                                "Write the answer as JSON to this file (-: standard output, instead of the table)");
  settings->outputs.add_others_to(app);
  settings->outputs.add_quiet_to(app);
  return [settings, &app] { return run_tolerance(*settings, app); };
}

}  // namespace

Verb tolerance() {
  return {"tolerance", "How much the results of a kernel may be off, proven and by chance, with the formula",
          add_tolerance};
}

}  // namespace driftbound::cli
