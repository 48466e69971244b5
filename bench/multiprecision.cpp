// What exact products of float32 data cost beside the same products in libraries of many digits: MPFR, Eigen with
// Boost.Multiprecision, and Arb and QD where they are installed. Loops whose time grows with the rows take a few of
// them; their time is scaled to all.
#include <fmt/format.h>
#include <mpfr.h>

#include <Eigen/Dense>
#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/mpfr.hpp>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/timing.hpp"
#include "linalg/residue_product.hpp"
#include "num/double_double.hpp"

#ifdef DRIFTBOUND_WITH_ARB
#include <arb_mat.h>
#endif
#ifdef DRIFTBOUND_WITH_QD
#include <qd/dd_real.h>
#include <qd/fpu.h>
#endif

namespace {

using namespace driftbound;
using namespace driftbound::linalg;

constexpr mpfr_prec_t bits = 113;

/// A B^T of float32 numbers; peers multiply the first `taken` rows of A.
struct Data {
  std::size_t m, k, n, taken;
  std::vector<float> a, b;

  Data(std::size_t rows, std::size_t length, std::size_t columns, std::size_t rows_of_peers)
      : m(rows), k(length), n(columns), taken(rows_of_peers), a(m * k), b(n * k) {
    std::mt19937_64 generator(1);
    std::normal_distribution<float> distribution;
    for (float& x : a) x = distribution(generator);
    for (float& x : b) x = distribution(generator);
  }
  FloatRows left() const { return {a.data(), m, k, static_cast<std::ptrdiff_t>(k), 1}; }
  FloatRows right() const { return {b.data(), n, k, static_cast<std::ptrdiff_t>(k), 1}; }
};

/// Our fastest product, weights made ready before.
class Ours {
public:
  explicit Ours(const Data& data) : data_(data), residues_(fastest_residue_kernels()) {
    if (residues_ != nullptr) {
      weights_ = std::make_unique<ResidueOperand>(data.right(), Side::right, 1, most_residue_bits() / 2, *residues_);
    } else {
      operand_ = std::make_unique<ExactOperand>(data.right(), Side::right, 1);
    }
  }
  std::string name() const { return residues_ != nullptr ? residues_->name : fastest_exact_kernels().name; }
  void multiply() {
    if (weights_) {
      const ResidueOperand samples(data_.left(), Side::left, 1, weights_->bits(), *residues_);
      residue_product(samples, *weights_, y_, 1);
    } else {
      exact_product(ExactOperand(data_.left(), Side::left, 1), *operand_, y_, 1);
    }
  }
  void tanh() { evaluate(num::DoubleDoubleFunction::tanh, y_.high, y_.low, y_.high, y_.low); }

private:
  const Data& data_;
  const ResidueKernels* residues_;
  std::unique_ptr<ResidueOperand> weights_;
  std::unique_ptr<ExactOperand> operand_;
  ExactProduct y_;
};

enum class Layer { product, tanh };

void compare(const Data& data, const std::string& peer, const std::function<void()>& theirs,
             Layer layer = Layer::product) {
  Ours ours(data);
  ours.multiply();
  constexpr int runs = 5;
  bench::Timing time = bench::medians(
      runs,
      [&] {
        ours.multiply();
        if (layer == Layer::tanh) ours.tanh();
      },
      theirs, bench::cpu_seconds_of);
  time.theirs *= static_cast<double>(data.m) / static_cast<double>(data.taken);
  const char* const function = layer == Layer::tanh ? "tanh/" : "";
  bench::print("multiprecision", fmt::format("{}{}x{}x{}/{}/t1", function, data.m, data.k, data.n, ours.name()), peer,
               time, 1);
}

/// Float32 numbers as MPFR numbers of 113 bits.
class MpfrArray {
public:
  explicit MpfrArray(std::span<const float> values) : values_(values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      mpfr_init2(&values_[i], bits);
      mpfr_set_flt(&values_[i], values[i], MPFR_RNDN);
    }
  }
  MpfrArray(const MpfrArray&) = delete;
  MpfrArray& operator=(const MpfrArray&) = delete;
  ~MpfrArray() {
    for (__mpfr_struct& value : values_) mpfr_clear(&value);
  }
  mpfr_srcptr operator[](std::size_t i) const { return &values_[i]; }

private:
  std::vector<__mpfr_struct> values_;
};

void against_mpfr(const Data& data) {
  const MpfrArray a(std::span(data.a).first(data.taken * data.k)), b(data.b);
  mpfr_t sum, term;
  mpfr_inits2(bits, sum, term, nullptr);
  const auto multiply_and_add = [&](Layer layer) {
    for (std::size_t i = 0; i < data.taken; ++i) {
      for (std::size_t j = 0; j < data.n; ++j) {
        mpfr_set_zero(sum, 1);
        for (std::size_t l = 0; l < data.k; ++l) {
          mpfr_mul(term, a[i * data.k + l], b[j * data.k + l], MPFR_RNDN);
          mpfr_add(sum, sum, term, MPFR_RNDN);
        }
        if (layer == Layer::tanh) mpfr_tanh(sum, sum, MPFR_RNDN);
      }
    }
  };
  compare(data, "mpfr-113-multiply-add", [&] { multiply_and_add(Layer::product); });
  compare(
      data, "mpfr-113-multiply-add", [&] { multiply_and_add(Layer::tanh); }, Layer::tanh);
  std::vector<mpfr_ptr> x(data.k), y(data.k);
  const auto pointers = [&](const MpfrArray& array, std::size_t row, std::vector<mpfr_ptr>& row_of) {
    for (std::size_t l = 0; l < data.k; ++l) row_of[l] = const_cast<mpfr_ptr>(array[row * data.k + l]);
  };
  compare(data, "mpfr-113-dot", [&] {
    for (std::size_t i = 0; i < data.taken; ++i) {
      pointers(a, i, x);
      for (std::size_t j = 0; j < data.n; ++j) {
        pointers(b, j, y);
        mpfr_dot(sum, x.data(), y.data(), data.k, MPFR_RNDN);
      }
    }
  });
  constexpr mpfr_prec_t bits_of_product = 48;  // of two float32 numbers
  std::vector<__mpfr_struct> products(data.k);
  std::vector<mpfr_ptr> terms;
  for (__mpfr_struct& product : products) {
    mpfr_init2(&product, bits_of_product);
    terms.push_back(&product);
  }
  compare(data, "mpfr-113-sum", [&] {
    for (std::size_t i = 0; i < data.taken; ++i) {
      for (std::size_t j = 0; j < data.n; ++j) {
        for (std::size_t l = 0; l < data.k; ++l) mpfr_mul(terms[l], a[i * data.k + l], b[j * data.k + l], MPFR_RNDN);
        mpfr_sum(sum, terms.data(), data.k, MPFR_RNDN);
      }
    }
  });
  for (__mpfr_struct& product : products) mpfr_clear(&product);
  mpfr_clears(sum, term, nullptr);
}

void against_eigen(const Data& data) {
  using Number = boost::multiprecision::number<
      boost::multiprecision::mpfr_float_backend<34, boost::multiprecision::allocate_stack>,
      boost::multiprecision::et_off>;
  using Matrix = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto index = [](std::size_t extent) { return static_cast<Eigen::Index>(extent); };
  const Matrix a = Eigen::Map<const Floats>(data.a.data(), index(data.taken), index(data.k)).cast<Number>();
  const Matrix b = Eigen::Map<const Floats>(data.b.data(), index(data.n), index(data.k)).cast<Number>();
  Matrix c;
  compare(data, "eigen-boost-mpfr-34-digits", [&] { c.noalias() = a * b.transpose(); });
}

#ifdef DRIFTBOUND_WITH_ARB
void against_arb(const Data& whole) {
  const Data data(whole.m, whole.k, whole.n, whole.m);
  arb_mat_t a, b, c;
  arb_mat_init(a, static_cast<slong>(data.m), static_cast<slong>(data.k));
  arb_mat_init(b, static_cast<slong>(data.k), static_cast<slong>(data.n));
  arb_mat_init(c, static_cast<slong>(data.m), static_cast<slong>(data.n));
  for (std::size_t i = 0; i < data.m * data.k; ++i)
    arb_set_d(arb_mat_entry(a, static_cast<slong>(i / data.k), static_cast<slong>(i % data.k)),
              static_cast<double>(data.a[i]));
  for (std::size_t i = 0; i < data.n * data.k; ++i)
    arb_set_d(arb_mat_entry(b, static_cast<slong>(i % data.k), static_cast<slong>(i / data.k)),
              static_cast<double>(data.b[i]));
  compare(data, "arb-mat-mul-113", [&] { arb_mat_mul(c, a, b, bits); });
  const auto tanh_of_product = [&] {
    arb_mat_mul(c, a, b, bits);
    for (slong i = 0; i < arb_mat_nrows(c); ++i)
      for (slong j = 0; j < arb_mat_ncols(c); ++j) arb_tanh(arb_mat_entry(c, i, j), arb_mat_entry(c, i, j), bits);
  };
  compare(data, "arb-mat-mul-113", tanh_of_product, Layer::tanh);
  arb_mat_clear(a);
  arb_mat_clear(b);
  arb_mat_clear(c);

  arb_ptr x = _arb_vec_init(static_cast<slong>(data.k)), rows = _arb_vec_init(static_cast<slong>(data.n * data.k));
  for (std::size_t l = 0; l < data.k; ++l) arb_set_d(x + l, static_cast<double>(data.a[l]));
  for (std::size_t l = 0; l < data.n * data.k; ++l) arb_set_d(rows + l, static_cast<double>(data.b[l]));
  arb_t sum;
  arb_init(sum);
  compare(whole, "arb-dot-113", [&] {
    for (std::size_t i = 0; i < whole.taken; ++i)
      for (std::size_t j = 0; j < data.n; ++j)
        arb_dot(sum, nullptr, 0, x, 1, rows + j * data.k, 1, static_cast<slong>(data.k), bits);
  });
  arb_clear(sum);
  _arb_vec_clear(x, static_cast<slong>(data.k));
  _arb_vec_clear(rows, static_cast<slong>(data.n * data.k));
}
#endif

#ifdef DRIFTBOUND_WITH_QD
void against_qd(const Data& data) {
  const std::vector<dd_real> a(data.a.begin(), data.a.end()), b(data.b.begin(), data.b.end());
  std::vector<dd_real> c(data.taken * data.n);
  compare(data, "qd-dd-real", [&] {
    for (std::size_t i = 0; i < data.taken; ++i) {
      for (std::size_t j = 0; j < data.n; ++j) {
        dd_real sum = 0.0;
        for (std::size_t l = 0; l < data.k; ++l) sum += a[i * data.k + l] * b[j * data.k + l];
        c[i * data.n + j] = sum;
      }
    }
  });
}
#endif

void against_all(const Data& data) {
  against_mpfr(data);
  against_eigen(data);
#ifdef DRIFTBOUND_WITH_ARB
  against_arb(data);
#else
  fmt::print(stderr, "multiprecision: built without Arb (libflint-arb-dev), which is left out\n");
#endif
#ifdef DRIFTBOUND_WITH_QD
  against_qd(data);
#else
  fmt::print(stderr, "multiprecision: built without QD (libqd-dev), which is left out\n");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("--quick")) {
    return against_all(Data(3, 7, 5, 2)), 0;
  }
  against_all(Data(512, 512, 512, 8));
  against_all(Data(1024, 1024, 1024, 4));
}
