// Stands in for npz.cpp in builds without libzip (DRIFTBOUND_CAPTURE_ONLY).
#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/text.hpp"

namespace driftbound {

NamedTensors parse_npz(const std::shared_ptr<const MappedFile>&, const std::string& where) {
  throw NotAvailable(where + ": this build records only and reads no .npz files; use .onnx models and .npy, .csv or " +
                     ".safetensors inputs, or a full build");
}

NamedTensors read_npz(const std::filesystem::path& file) {
  return parse_npz(nullptr, printable(file.string()));
}

}  // namespace driftbound
