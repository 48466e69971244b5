// Every operation of simd/vector.hpp, as one instruction set does it.

#include "simd/kernels/operations.hpp"

#include "simd/vector.hpp"

namespace driftbound::simd_test {
namespace {

template <class V>
constexpr auto table_of() {
  using T = typename V::Number;
  using M = typename V::Mask;
  using O = Operations<T>;
  using I = typename O::Integer;
  using Other = typename O::Other;
  O o{};
  o.lanes = V::lanes;
  o.copy = [](const T* a, T* y) { V::load(a).store(y); };
  o.negative = [](const T* a, T* y) { (-V::load(a)).store(y); };
  o.magnitude = [](const T* a, T* y) { simd::magnitude(V::load(a)).store(y); };
  o.root = [](const T* a, T* y) { simd::square_root(V::load(a)).store(y); };
  o.halves_swapped = [](const T* a, T* y) {
    simd::joined(simd::high_half(V::load(a)), simd::low_half(V::load(a))).store(y);
  };
  o.sum = [](const T* a, const T* b, T* y) { (V::load(a) + V::load(b)).store(y); };
  o.difference = [](const T* a, const T* b, T* y) { (V::load(a) - V::load(b)).store(y); };
  o.product = [](const T* a, const T* b, T* y) { (V::load(a) * V::load(b)).store(y); };
  o.quotient = [](const T* a, const T* b, T* y) { (V::load(a) / V::load(b)).store(y); };
  o.smaller = [](const T* a, const T* b, T* y) { smaller(V::load(a), V::load(b)).store(y); };
  o.larger = [](const T* a, const T* b, T* y) { larger(V::load(a), V::load(b)).store(y); };
  o.with_sign_of = [](const T* a, const T* b, T* y) { simd::with_sign_of(V::load(a), V::load(b)).store(y); };
  o.equal = [](const T* a, const T* b, I* y) { (V::load(a) == V::load(b)).store(y); };
  o.unequal = [](const T* a, const T* b, I* y) { (V::load(a) != V::load(b)).store(y); };
  o.less = [](const T* a, const T* b, I* y) { (V::load(a) < V::load(b)).store(y); };
  o.at_most = [](const T* a, const T* b, I* y) { (V::load(a) <= V::load(b)).store(y); };
  o.greater = [](const T* a, const T* b, I* y) { (V::load(a) > V::load(b)).store(y); };
  o.at_least = [](const T* a, const T* b, I* y) { (V::load(a) >= V::load(b)).store(y); };
  o.fma = [](const T* a, const T* b, const T* c, T* y) { simd::fma(V::load(a), V::load(b), V::load(c)).store(y); };
  o.multiply_add = [](const T* a, const T* b, const T* c, T* y) {
    simd::multiply_add(V::load(a), V::load(b), V::load(c)).store(y);
  };
  o.where = [](const I* mask, const T* a, const T* b, T* y) { where(M::load(mask), V::load(a), V::load(b)).store(y); };
  o.constant = [](T x, T* y) { V(x).store(y); };
  o.load_part = [](const T* p, std::size_t count, T* y) { V::load(p, count).store(y); };
  o.store_part = [](const T* x, std::size_t count, T* p) { V::load(x).store(p, count); };
  o.add_up = [](const T* a, const T* b, std::size_t n, T* y) {
    simd::in_vectors<V::lanes>(
        n, [&](std::size_t i, auto count) { (V::load(a + i, count) + V::load(b + i, count)).store(y + i, count); });
  };
  o.sum_of = [](const T* a) { return simd::sum_of(V::load(a)); };
  o.largest_of = [](const T* a) { return simd::largest_of(V::load(a)); };
  o.any = [](const I* mask) { return simd::any(M::load(mask)); };
  o.every = [](const I* mask) { return simd::every(M::load(mask)); };
  o.converted = [](const T* a, Other* y) { simd::converted<Other>(V::load(a)).store(y); };
  o.truncated = [](const T* a, I* y) { simd::converted<I>(V::load(a)).store(y); };
  o.from_integers = [](const I* a, T* y) { simd::converted<T>(M::load(a)).store(y); };
  o.bits = [](const I* a, const I* b, int places, I* y) {
    const M x = M::load(a), z = M::load(b), results[6] = {x & z, x | z, x ^ z, ~x, x << places, x >> places};
    for (std::size_t i = 0; i < 6; ++i) results[i].store(y + i * V::lanes);
  };
  return o;
}

void gathered(const double* table, const std::int64_t* index, double* y) {
  simd::gathered(table, simd::Vector<std::int64_t, 8>::load(index)).store(y);
}

template <class T, std::size_t lanes>
using Of = simd::Vector<T, lanes>;

}  // namespace

const OperationTable DRIFTBOUND_SIMD_NAME(operations) = {
    DRIFTBOUND_SIMD_TARGET_NAME,
    simd::has_fma,
    {table_of<Of<double, 2>>(), table_of<Of<double, 4>>(), table_of<Of<double, 8>>(), table_of<Of<double, 16>>()},
    {table_of<Of<float, 4>>(), table_of<Of<float, 8>>(), table_of<Of<float, 16>>(), table_of<Of<float, 32>>()},
    &gathered};

}  // namespace driftbound::simd_test
