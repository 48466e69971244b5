#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace driftbound::fuzz {

using Bytes = std::span<const std::byte>;

/// A reader that must cope with any bytes: it gives a result or an error of the library.
struct Target {
  std::string_view name;
  void (*run)(Bytes);
};

std::span<const Target> targets();
/// Throws:    std::out_of_range
const Target& find_target(std::string_view name);

/// What no input may bring about; not an Error of the library, so that nothing takes it for a refusal.
class Violation : public std::logic_error {
public:
  using std::logic_error::logic_error;
};
void require(bool holds, const char* claim);

/// Runs the target: errors of the library must be fit to print, no other exception may come out, and no more memory be
/// taken than memory_limit.
/// Returns:   the most bytes in use at once
/// Throws:    Violation, and whatever the target lets through
std::size_t run_checked(const Target& target, Bytes bytes);

/// 64 MiB and twice the file.
std::size_t memory_limit(std::size_t file_size);

// The targets.
void read_onnx(Bytes bytes);          ///< a file
void read_drawn_onnx(Bytes bytes);    ///< draws of a file's contents, written as well-formed messages
void infer_drawn_graph(Bytes bytes);  ///< draws of a graph: ops, attributes, shapes
void read_zip(Bytes bytes);           ///< an archive
void read_layers(Bytes bytes);        ///< names and contents of an archive's members
void read_npy_file(Bytes bytes);      ///< a file
void read_safetensors(Bytes bytes);   ///< a file
void read_trace_header(Bytes bytes);  ///< the header of a trace of a small network
void read_recording(Bytes bytes);     ///< the first shard of a recorded run
void read_csv_text(Bytes bytes);      ///< a file
void read_json(Bytes bytes);          ///< an arithmetic, or, after a blank, a trace's provenance
void read_model_inputs(Bytes bytes);  ///< which model, which format, and the file

}  // namespace driftbound::fuzz
