#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/record_chain.hpp"
#include "driftbound/trace/record_parts.hpp"
#include "fuzz/targets.hpp"

namespace driftbound::fuzz {
namespace {

/// A file with these bytes, as shards are found by the names of files.
class File {
public:
  explicit File(Bytes bytes)
      : path_(std::filesystem::temp_directory_path() /
              ("driftbound-fuzz-" + std::to_string(::getpid()) + ".safetensors")) {
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  ~File() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

void check_part(const RecordPart& part) {
  validate(part.graph);
  require(part.trace.layers.size() == part.graph.nodes.size(), "a part has every layer");
  require(part.places.size() == static_cast<std::size_t>(part.trace.samples), "a part has a place for every sample");
}

}  // namespace

void read_recording(Bytes bytes) {
  const File file(bytes);
  const RecordedRun run(file.path());
  for (std::size_t record = 0; record < run.records().size(); ++record)
    for (const std::int64_t draws : {0, 3})
      cut_record(run, record, {draws, 1}, [](RecordPart&& part) {
        check_part(part);
        return true;
      });
  const RecordChain chain = chain_records(run, 10'000);
  if (!chain.why_not.empty()) return;
  validate(chain.graph);
  require(chain.trace.layers.size() == chain.graph.nodes.size(), "a network has every layer");
  require(chain.results.size() == chain.graph.nodes.size(), "every layer is a result, or known not to be one");
}

}  // namespace driftbound::fuzz
