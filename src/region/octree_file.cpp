#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>
#include <string>

#include "driftbound/num/errors.hpp"
#include "driftbound/trace/trace.hpp"
#include "model/atomic_file.hpp"
#include "region/octree_state.hpp"

// A saved tree: the text `magic`, numbers as they lie in memory (docs/file-formats.md), and the SHA-256 of all that.

namespace driftbound {
namespace {

constexpr std::string_view magic = "driftbound octree 1\n";
constexpr std::size_t hash_size = 64;

class Writer {
public:
  template <class T>
  void number(T x) {
    text_.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  template <class T>
  void numbers(const std::vector<T>& all) {
    number(static_cast<std::uint64_t>(all.size()));
    text_.append(reinterpret_cast<const char*>(all.data()), all.size() * sizeof(T));
  }
  void text(std::string_view text) { text_ += text; }
  const std::string& all() const { return text_; }

private:
  std::string text_;
};

std::string hash_of(std::string_view text) {
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

class Reader {
public:
  Reader(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

  std::string_view text(std::size_t size) {
    if (size > text_.size()) fail("it ends early");
    const std::string_view part = text_.substr(0, size);
    text_.remove_prefix(size);
    return part;
  }
  template <class T>
  T number() {
    T x;
    std::memcpy(&x, text(sizeof x).data(), sizeof x);
    return x;
  }
  template <class T>
  std::vector<T> numbers() {
    const auto count = number<std::uint64_t>();
    if (count > text_.size() / sizeof(T)) fail("it ends early");
    std::vector<T> all(count);
    if (count > 0) std::memcpy(all.data(), text(count * sizeof(T)).data(), count * sizeof(T));
    return all;
  }
  bool is_at_end() const { return text_.empty(); }
  [[noreturn]] void fail(const std::string& why) const {
    throw ParseError(file_.string() + ": no octree of this version, or damaged: " + why);
  }

private:
  std::string_view text_;
  const std::filesystem::path& file_;
};

std::string text_of(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) throw FileError("cannot read " + file.string() + ": it is a folder");
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw FileError("cannot read " + file.string());
  return text;
}

/// Children lie behind their parents, each cell but the first has one parent, and counts are what the cells are.
bool is_tree(const region::OctreeCells& cells, std::uint32_t children, const std::vector<std::int64_t>& unknown,
             const std::vector<std::uint32_t>& first_of_depth, std::uint32_t next) {
  const std::size_t size = cells.node.size();
  if (size == 0 || cells.steepness.size() != size || cells.margin.size() != size || next > size) return false;
  if (first_of_depth.empty() || first_of_depth.front() != 0 || unknown.size() != first_of_depth.size()) return false;
  std::vector<std::int64_t> counted(unknown.size(), 0);
  std::uint64_t expected = 1;
  std::size_t depth = 0;
  for (std::uint32_t cell = 0; cell < size; ++cell) {
    while (depth + 1 < first_of_depth.size() && cell >= first_of_depth[depth + 1]) ++depth;
    if ((cells.node[cell] & 3U) == 3U || cell >= expected) return false;
    if (depth == 0 && cell != 0) return false;
    const bool is_unknown = cells.sign(cell) == RegionSign::unknown;
    if (const std::uint32_t child = cells.first_child(cell); child != 0) {
      if (!is_unknown || child != expected || depth + 1 >= first_of_depth.size() || child < first_of_depth[depth + 1])
        return false;
      expected += children;
    } else if (is_unknown) {
      if (cell < next) return false;
      ++counted[depth];
    }
    if (!(cells.steepness[cell] >= 0.0F) || !(cells.margin[cell] >= 0.0F)) return false;
  }
  for (std::size_t i = 1; i < first_of_depth.size(); ++i)
    if (first_of_depth[i] <= first_of_depth[i - 1] || first_of_depth[i] >= size) return false;
  return expected == size && counted == unknown;
}

region::OctreeContent read(const std::filesystem::path& file, const RegionEvaluator& evaluator) {
  const std::string text = text_of(file);
  Reader reader(text, file);
  if (text.size() < magic.size() + hash_size || reader.text(magic.size()) != magic) reader.fail("it begins otherwise");
  const std::string_view content = std::string_view(text).substr(0, text.size() - hash_size);
  if (hash_of(content) != std::string_view(text).substr(content.size())) reader.fail("its hash differs");
  if (reader.text(hash_size) != evaluator.fingerprint())
    throw InvalidArgument(file.string() + ": this is the octree of another network, target or iso value");
  region::OctreeContent tree;
  tree.domain.lower = reader.numbers<double>();
  tree.domain.upper = reader.numbers<double>();
  tree.cells.node = reader.numbers<std::uint32_t>();
  tree.cells.steepness = reader.numbers<float>();
  tree.cells.margin = reader.numbers<float>();
  tree.unknown = reader.numbers<std::int64_t>();
  tree.first_of_depth = reader.numbers<std::uint32_t>();
  tree.next = reader.number<std::uint32_t>();
  const std::size_t d = evaluator.dimension();
  bool is_box = d <= 4 && tree.domain.lower.size() == d && tree.domain.upper.size() == d;
  for (std::size_t j = 0; is_box && j < d; ++j) is_box = tree.domain.lower[j] < tree.domain.upper[j];
  if (!is_box || reader.text(hash_size).empty() || !reader.is_at_end() ||
      !is_tree(tree.cells, std::uint32_t{1} << d, tree.unknown, tree.first_of_depth, tree.next))
    reader.fail("its cells make no tree");
  return tree;
}

OctreeOptions options_of(double iso) {
  OctreeOptions options;
  options.iso = iso;
  return options;
}

}  // namespace

void Octree::save(const std::filesystem::path& file) const {
  Writer writer;
  writer.text(magic);
  writer.text(state_->evaluator.fingerprint());
  writer.numbers(state_->domain.lower);
  writer.numbers(state_->domain.upper);
  writer.numbers(state_->cells.node);
  writer.numbers(state_->cells.steepness);
  writer.numbers(state_->cells.margin);
  writer.numbers(state_->unknown);
  writer.numbers(state_->first_of_depth);
  writer.number(state_->next);
  AtomicFile out(file);
  out.write(writer.all());
  out.write(hash_of(writer.all()));
  out.commit();
}

Octree Octree::load(const std::filesystem::path& file, const Graph& graph, double iso) {
  return loaded(file, State::evaluator_of(graph, nullptr, options_of(iso)));
}

Octree Octree::load(const std::filesystem::path& file, const Graph& graph, const Target& target, double iso) {
  return loaded(file, State::evaluator_of(graph, &target, options_of(iso)));
}

Octree Octree::loaded(const std::filesystem::path& file, RegionEvaluator evaluator) {
  region::OctreeContent content = read(file, evaluator);
  return Octree(std::make_shared<const State>(std::move(evaluator), std::move(content)));
}

}  // namespace driftbound
