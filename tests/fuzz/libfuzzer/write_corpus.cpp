// Writes the seeds of tests/fuzz/seeds.cpp as files: write_corpus FOLDER

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fuzz/seeds.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_corpus FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  for (const driftbound::fuzz::Seed& seed : driftbound::fuzz::seeds()) {
    std::filesystem::create_directories(root / seed.target);
    std::ofstream(root / seed.target / seed.name, std::ios::binary) << seed.contents;
  }
}
