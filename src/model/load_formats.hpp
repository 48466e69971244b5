#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "driftbound/model/load.hpp"
#include "model/mapped_file.hpp"

namespace driftbound {

/// The loaders behind load_model. Graph::source stays to be filled in. Messages do not name the file.
/// Throws:    ParseError, ShapeMismatch

/// `folder` is where data files of the model lie; `constants` are inputs that are no arguments.
/// Throws:    FileError (data files) besides, InvalidArgument (constants, given inputs)
ModelDescription describe_onnx(const std::shared_ptr<const MappedFile>& file, const std::filesystem::path& folder,
                               const Inputs& constants = {}, const GivenInputs& given = {});

/// A dump of layers in order: <number>.<kind>.<parameter>, as in 0000.dense.A [in,out], 0000.dense.b, 0001.relu._
ModelDescription describe_npz(const std::shared_ptr<const MappedFile>& file);

}  // namespace driftbound
