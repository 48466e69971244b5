#include <zip.h>

#include <algorithm>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "model/npy.hpp"
#include "model/text.hpp"

namespace driftbound {
namespace {

/// What an archive may take unpacked: weights hardly shrink when packed, so that twice the archive is plenty, and small
/// archives may hold whatever they like.
std::size_t most_unpacked_bytes(std::size_t archive_size) {
  return (std::size_t{48} << 20) + 2 * archive_size;
}

constexpr std::size_t chunk_size = std::size_t{1} << 20;

/// What libzip, the list of tensors and a layer made of them keep for one member besides its bytes.
constexpr std::size_t bytes_per_member = 2048;

/// At least as many as an archive has members: each begins with these bytes in the directory. libzip takes memory for
/// all of them when it opens an archive.
std::size_t most_members(std::span<const std::byte> bytes) {
  constexpr std::string_view signature = "PK\x01\x02";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::size_t count = 0;
  for (std::size_t at = text.find(signature); at != std::string_view::npos; at = text.find(signature, at + 1)) ++count;
  return count;
}

void require_few_members(std::span<const std::byte> bytes, const std::string& where) {
  if (most_members(bytes) <= most_unpacked_bytes(bytes.size()) / bytes_per_member) return;
  throw Unsupported(where + ": the archive has more members than one of its size justifies (" +
                    std::to_string(most_unpacked_bytes(bytes.size()) / bytes_per_member) + ")");
}

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Member = std::unique_ptr<zip_file_t, CloseMember>;

std::string message(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

Archive open_archive(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.empty()) throw ParseError(where + ": the file is empty");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) throw ParseError(where + ": not a readable zip archive: " + message(error));
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (!archive) {
    zip_source_free(source);
    throw ParseError(where + ": not a readable zip archive: " + message(error));
  }
  zip_error_fini(&error);
  return archive;
}

/// Up to `size` bytes more at the end of `bytes`; memory grows with what is really there.
void append(Member& member, std::vector<std::byte>& bytes, std::size_t size, const std::string& where) {
  while (size > 0) {
    const std::size_t before = bytes.size();
    bytes.resize(before + std::min(size, chunk_size));
    const zip_int64_t read = zip_fread(member.get(), bytes.data() + before, bytes.size() - before);
    if (read < 0) throw ParseError(where + ": " + zip_error_strerror(zip_file_get_error(member.get())));
    bytes.resize(before + static_cast<std::size_t>(read));
    if (read == 0) return;
    size -= static_cast<std::size_t>(read);
  }
}

/// Takes what the member needs off the budget.
StoredTensor read_member(zip_t* archive, zip_uint64_t index, std::size_t& budget, const std::string& where) {
  Member member(zip_fopen_index(archive, index, 0));
  if (!member) throw ParseError(where + ": " + zip_strerror(archive));
  std::vector<std::byte> bytes;
  append(member, bytes, longest_npy_header, where);
  const NpyHeader header = parse_npy_header(bytes, where);
  const std::size_t whole = header.size + header.data_size;
  const std::size_t rearranged = header.fortran_order || header.big_endian ? header.data_size : 0;
  if (header.data_size > budget || whole + rearranged + bytes_per_member > budget) {
    throw Unsupported(where + ": the archive unpacks to more than twice its size and 48 MiB; store it unpacked " +
                      "(numpy.savez)");
  }
  bytes.reserve(whole + 1);
  if (bytes.size() < whole + 1) append(member, bytes, whole + 1 - bytes.size(), where);
  if (bytes.size() < longest_npy_header) bytes.shrink_to_fit();
  budget -= whole + bytes_per_member;
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return parse_npy(*owner, owner, where);
}

}  // namespace

NamedTensors parse_npz(const std::shared_ptr<const MappedFile>& file, const std::string& where) {
  require_few_members(file->bytes(), where);
  const Archive archive = open_archive(file->bytes(), where);
  constexpr std::string_view suffix = ".npy";
  NamedTensors tensors;
  std::size_t budget = most_unpacked_bytes(file->bytes().size());
  const zip_int64_t members = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < members; ++i) {
    const auto index = static_cast<zip_uint64_t>(i);
    const char* raw_name = zip_get_name(archive.get(), index, ZIP_FL_ENC_RAW);
    const std::string_view name = raw_name == nullptr ? "" : raw_name;
    if (!name.ends_with(suffix)) continue;
    StoredTensor tensor = read_member(archive.get(), index, budget, where + ": " + in_quotes(name));
    tensors.emplace_back(printable(name.substr(0, name.size() - suffix.size())), std::move(tensor));
  }
  return tensors;
}

NamedTensors read_npz(const std::filesystem::path& file) {
  return parse_npz(MappedFile::open(file), printable(file.string()));
}

}  // namespace driftbound
