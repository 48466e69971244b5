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
  analysis::ToleranceWords words;
  std::vector<std::string> data;
  std::string elements;  ///< file for the tolerance of each element
  Outputs outputs;
};

/// [3, shape of the result] in float64: the exact results, the tolerances proven, and those at chance.
std::string npy_of(const analysis::OpTolerance& tolerance) {
  Shape shape = tolerance.exact.shape;
  shape.insert(shape.begin(), 3);
  std::string text = npy_header("<f8", shape);
  for (const Tensor<double>* part : {&tolerance.exact, &tolerance.proven, &tolerance.by_chance})
    text.append(reinterpret_cast<const char*>(part->values.data()), part->values.size() * sizeof(double));
  return text;
}

int run_tolerance(ToleranceSettings settings) {
  const auto start = std::chrono::steady_clock::now();
  settings.outputs.check({settings.elements});
  analysis::ToleranceRequest& request = settings.request;
  for (const std::string& file : settings.data) request.data.push_back(read_array(file));
  analysis::read_words(settings.words, request);
  request.threads = thread_count(request.threads);
  analysis::ToleranceReport report = analysis::answer(request);
  report.command = settings.command;
  report.date = analysis::now_utc();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const analysis::Document document = analysis::document_of(report);
  const auto save_elements = [&] {
    if (!settings.elements.empty()) write_whole(settings.elements, npy_of(report.last_asked().tolerance));
  };
  settings.outputs.publish(document, {isatty(STDOUT_FILENO) == 1, false}, save_elements);
  return document.exit_status;
}

Verb::Run add_tolerance(CLI::App& app, const std::string& command_line) {
  auto settings = std::make_shared<ToleranceSettings>();
  settings->command = command_line;
  analysis::ToleranceRequest& request = settings->request;
  app.add_option("OP", request.op, "One of " + analysis::names_of_tolerance_ops())->required();
  app.add_option("--k", request.k, "Length of the sum or row; attention: size of a head; all-reduce: ranks");
  app.add_option("--keys", request.keys, "Attention: number of keys");
  app.add_option("--scale", request.scale, "Attention: factor of the scores (default: 1 / sqrt(size of a head))");
  app.add_flag("--causal", request.is_causal, "Attention: query i sees keys up to i");
  app.add_option("--epsilon", request.epsilon, "Of norms (default: 1e-5 for layernorm, 1e-6 for rmsnorm)");
  app.add_flag("--bias", request.has_bias, "A bias is added to the product");
  app.add_flag("--stored-inside", request.stores_inside,
               "Steps inside of an op store their results in the format of the results, as unfused kernels do");
  app.add_option("--in", settings->words.input, "Format of the operands")->capture_default_str();
  app.add_option("--acc", settings->words.accumulator, "Format of sums and of all steps inside")->capture_default_str();
  app.add_option("--out", settings->words.output, "Format of the results (default: that of the sums)");
  app.add_option("--magnitude", request.magnitude,
                 "Largest magnitude of the operands; standard deviation of normal ones")
      ->capture_default_str();
  app.add_option("--data", settings->data,
                 "Operands (.npy), in order, and a mask of attention: bounds for these, element by element");
  app.add_option("--elements", settings->elements,
                 "Write exact results, tolerances proven and at chance, element by element, to this file (.npy)");
  app.add_option("--order", settings->words.order, "Order of the sums, as report takes it (default: any)");
  app.add_option("--split-k", settings->words.split_k, "So many parts of the sum, each added up in turn")
      ->check(CLI::PositiveNumber);
  app.add_option("--device", request.device, "Device whose matrix unit adds up products (default: sums as --acc says)")
      ->check(CLI::IsMember(names_of_devices()));
  app.add_option("--promotion", request.promotion,
                 "A matrix unit's sum is added to a float32 after at most this many products, as kernels in fp8 do")
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
  return [settings] { return run_tolerance(*settings); };
}

}  // namespace

Verb tolerance() {
  return {"tolerance", "How much the results of a kernel may be off, proven and by chance, with the formula",
          add_tolerance};
}

}  // namespace driftbound::cli
