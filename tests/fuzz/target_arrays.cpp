#include <array>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "fuzz/draw.hpp"
#include "fuzz/study.hpp"
#include "model/array_files.hpp"
#include "model/convert.hpp"
#include "model/load_formats.hpp"
#include "support/npy_writer.hpp"

namespace driftbound::fuzz {
namespace {

void load_and_study(std::vector<std::byte> bytes) {
  const ModelDescription model = describe_npz(MappedFile::holding(std::move(bytes)));
  if (model.unsupported.empty()) study(model.graph);
}

std::string member_name(Draw& draw, std::size_t number) {
  constexpr std::array<std::string_view, 12> kinds = {"dense", "relu", "elu", "tanh",     "sigmoid",      "softplus",
                                                      "sin",   "cos",  "exp", "identity", "squeeze_last", "conv"};
  constexpr std::array<std::string_view, 4> parameters = {"A", "b", "_", "c"};
  if (draw.byte() == 255) return draw.text(16) + ".npy";
  const std::string digits = std::to_string(draw.flag() ? number / 2 : draw.pick(4));
  return "000" + digits + "." + std::string(kinds[draw.flag() ? 0 : draw.pick(kinds.size())]) + "." +
         std::string(parameters[draw.pick(parameters.size())]) + ".npy";
}

std::string member(Draw& draw) {
  constexpr std::array<std::string_view, 10> types = {"<f4", "<f8", "<f2", ">f4", ">f8",
                                                      "<i8", "|b1", "f4",  "<u2", "|O"};
  constexpr std::array<std::size_t, 10> widths = {4, 8, 2, 4, 8, 8, 1, 4, 2, 8};
  const std::size_t type = draw.pick(types.size());
  const std::vector<std::int64_t> shape = draw.integers(3);
  std::size_t elements = 1;
  for (const std::int64_t extent : shape)
    elements = extent >= 0 && extent < 8 ? elements * static_cast<std::size_t>(extent) : 0;
  if (draw.byte() == 255) elements = draw.pick(64);
  const std::string data(elements * widths[type], static_cast<char>(draw.byte()));
  const bool fortran = draw.flag();
  std::string header = test::npy_header(types[type], shape, fortran);
  if (draw.byte() == 255) header += draw.text(24);
  return test::npy_with_header(header, data, 1 + static_cast<int>(draw.pick(3)));
}

void use(const StoredTensor& tensor) {
  tensor.all_finite();
  require(tensor.identical(tensor), "a tensor equals itself");
  require(reshaped(tensor, {static_cast<std::int64_t>(tensor.size())}).size() == tensor.size(),
          "a list has all elements");
  const StoredTensor wide = converted(tensor, ElementType::f64, "array");
  require(wide.size() == tensor.size(), "nothing is lost");
  converted(wide, ElementType::f16, "array");
  converted(wide, ElementType::i16, "array");
}

}  // namespace

void read_zip(Bytes bytes) {
  load_and_study({bytes.begin(), bytes.end()});
}

void read_layers(Bytes bytes) {
  Draw draw(bytes);
  std::vector<std::pair<std::string, std::string>> members;
  for (std::size_t i = 0; i < 8 && !draw.is_empty(); ++i) {
    std::string name = member_name(draw, i);
    members.emplace_back(std::move(name), member(draw));
  }
  const std::string file = test::zip_of(members);
  const Bytes contents = std::as_bytes(std::span(file));
  load_and_study({contents.begin(), contents.end()});
}

void read_npy_file(Bytes bytes) {
  const auto file = MappedFile::holding({bytes.begin(), bytes.end()});
  use(parse_npy(file->bytes(), file, "array"));
}

void read_csv_text(Bytes bytes) {
  const auto file = MappedFile::holding({bytes.begin(), bytes.end()});
  const StoredTensor table = parse_csv(text_of(*file), "table");
  require(table.shape().size() == 2 && table.shape()[0] > 0 && table.shape()[1] > 0, "a table has rows and columns");
}

}  // namespace driftbound::fuzz
