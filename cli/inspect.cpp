#include "analysis/inspect.hpp"

#include <fmt/format.h>

#include <memory>

#include "analysis/function_table.hpp"
#include "analysis/op_table.hpp"
#include "cli/common.hpp"
#include "cli/verbs.hpp"

namespace driftbound::cli {

Verb add_inspect(CLI::App& program) {
  CLI::App& app =
      *program.add_subcommand("inspect", "Show layers, shapes, parameters, and every node that is not supported");
  auto file = std::make_shared<std::string>();
  auto ops = std::make_shared<bool>(false), functions = std::make_shared<bool>(false);
  app.add_option("FILE", *file, "Model: .onnx, or a .npz layer dump");
  app.add_flag("--ops", *ops, "Show every op that there is, with its opsets, evaluation, bounds and theorems");
  app.add_flag("--functions", *functions, "Show how accurate the functions of every known library are");
  app.require_option(1);
  return [file, ops, functions] {
    if (*functions) {
      fmt::print("{}", analysis::describe_functions());
      return exit_ok;
    }
    if (*ops) {
      fmt::print("{}", analysis::describe_ops());
      return exit_ok;
    }
    const ModelDescription description = describe_model(*file);
    fmt::print("{}", analysis::describe(description, *file));
    if (!description.unsupported.empty()) return exit_bad_input;
    const std::string complaint = non_finite_weight(description.graph);
    if (!complaint.empty()) fmt::print("\nNo run of it can be judged: {}.\n", complaint);
    return complaint.empty() ? exit_ok : exit_bad_input;
  };
}

}  // namespace driftbound::cli
