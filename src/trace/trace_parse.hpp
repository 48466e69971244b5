#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "driftbound/trace/recorded_graph.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/mapped_file.hpp"

namespace driftbound {

/// read_trace for a file that is open already; messages start with `where`.
Trace parse_trace(const Graph& graph, const std::string& model_sha256, std::shared_ptr<const MappedFile> file,
                  const std::string& where, const Inputs& computed = {});

/// read_recorded likewise.
RecordedRunOfModel parse_recorded(const Graph& graph, const std::string& model_sha256,
                                  std::shared_ptr<const MappedFile> file, const std::string& where,
                                  const Inputs& computed = {});

/// Float32 in an unknown order, with functions as accurate as those of a library: what is assumed of a run that says
/// nothing.
ArithmeticModel assumed_arithmetic(std::string_view functions = "cuda");

/// The library (docs/functions.md) whose functions a run of this provenance is assumed to call where it does not say.
std::string_view assumed_functions(const Provenance& provenance);

/// Whether some op, or some library, calls a function of this name.
bool names_function(std::string_view name);

/// A trace's metadata "provenance", JSON.
/// Throws:    ParseError
Provenance provenance_from_json(const std::string& text, const std::string& where);

}  // namespace driftbound
