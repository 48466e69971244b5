#pragma once

#include <string>
#include <string_view>

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// A number of interest: an output element, or the difference of two, evaluated exactly on the
/// computed outputs ('logits[1]-logits[0]').
struct Scalar : Target {
  std::string text;
};

/// "logits, boxes": the outputs that there are.
std::string output_names(const Graph& graph);

/// Parses 'NAME[INDEX]' or 'NAME[INDEX]-NAME[INDEX]'; NAME alone is NAME[0].
/// Throws:    InvalidArgument naming the outputs there are; also for an element minus itself
Scalar parse_scalar(const Graph& graph, std::string_view text);

/// The scalar asked for, or, where the text is empty, the only output element.
/// Throws:    InvalidArgument as parse_scalar; also for an empty text where there are several elements
Scalar scalar_or_only_output(const Graph& graph, std::string_view text);

/// The function whose zeros count: "sdf", "sdf - 0.5".
std::string function_text(std::string_view scalar, double iso);

}  // namespace driftbound::analysis
