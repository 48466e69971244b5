#pragma once

#include <string>

#include "driftbound/model/load.hpp"
#include "support/onnx_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

namespace driftbound::test {

/// The message of the exception of this type that loading throws; empty where it throws none.
template <class Exception>
std::string load_error(const std::filesystem::path& file) {
  try {
    load_model(file);
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

template <class Exception>
std::string load_error(const OnnxModel& model) {
  const TemporaryFolder folder;
  return load_error<Exception>(model.save(folder / "m.onnx"));
}

inline Graph loaded(const OnnxModel& model) {
  const TemporaryFolder folder;
  return load_model(model.save(folder / "m.onnx"));
}

}  // namespace driftbound::test
