#pragma once

#include <filesystem>
#include <memory>

#include "driftbound/model/inputs.hpp"
#include "model/mapped_file.hpp"

namespace driftbound {

/// read_inputs for a file that is open already; its name says which format it is.
Inputs parse_inputs(const Graph& graph, const std::shared_ptr<const MappedFile>& file,
                    const std::filesystem::path& name);

}  // namespace driftbound
