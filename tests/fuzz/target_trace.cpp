#include <string>

#include "driftbound/num/errors.hpp"
#include "fuzz/draw.hpp"
#include "fuzz/small_models.hpp"
#include "model/safetensors.hpp"
#include "trace/trace_parse.hpp"

namespace driftbound::fuzz {
namespace {

std::shared_ptr<const MappedFile> file_of(std::string_view header, std::size_t data_size) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(sizeof length + header.size() + data_size);
  std::memcpy(bytes.data(), &length, sizeof length);
  if (!header.empty()) std::memcpy(bytes.data() + sizeof length, header.data(), header.size());
  return MappedFile::holding(std::move(bytes));
}

std::string_view text_of_bytes(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void check_arithmetic(std::string_view text) {
  try {
    const std::string written = to_json(arithmetic_from_json(text));
    require(to_json(arithmetic_from_json(written)) == written, "an arithmetic is read as it was written");
  } catch (const ParseError&) {
  }
}

}  // namespace

void read_safetensors(Bytes bytes) {
  const SafetensorsFile file(MappedFile::holding({bytes.begin(), bytes.end()}), "file");
  for (const std::string& name : file.names()) {
    try {
      require(file.tensor(name).shape() == file.shape(name), "a tensor has the shape of its header");
    } catch (const Error&) {
    }
  }
}

void read_trace_header(Bytes bytes) {
  Draw draw(bytes);
  const std::size_t choices = draw.byte();
  const Graph& graph = small_model(choices % 4);
  const Trace trace = parse_trace(graph, "", file_of(text_of_bytes(draw.rest()), choices / 4 * 4), "trace");
  require(trace.layers.size() == graph.nodes.size(), "a trace has every layer");
}

void read_json(Bytes bytes) {
  const std::string_view text = text_of_bytes(bytes);
  if (text.starts_with('{')) return check_arithmetic(text);
  provenance_from_json(std::string(text), "trace");
}

}  // namespace driftbound::fuzz
