#pragma once

namespace driftbound::bounds {

// Constants of the kernels of Gelu (T-124).

/// erfc(c / sqrt 2) / 2 for c = 0, 1/8, 2/8, ..., 9, rounded to nearest.
constexpr double normal_tails[73] = {
    0x1.0000000000000p-1,  0x1.cd116c3bf96a6p-2,  0x1.9aecba9d22528p-2,  0x1.6a527901e8243p-2,  0x1.3bf143b9aa712p-2,
    0x1.105e82b1e4ca0p-2,  0x1.d0220056b3a4ep-3,  0x1.86bb4f580a4bap-3,  0x1.44ed0bb7cb20bp-3,  0x1.0ad7da0f9b0b9p-3,
    0x1.b0bdd12ba9c29p-4,  0x1.5a61963dc9206p-4,  0x1.11a46d89647efp-4,  0x1.aaa65bfa4f82ep-5,  0x1.482a2414556ddp-5,
    0x1.f20394ecbf67bp-6,  0x1.74bcf82c9d860p-6,  0x1.13243b7f38028p-6,  0x1.90924f21d3612p-7,  0x1.1f85a1c9b297ep-7,
    0x1.96f4e57e49ce4p-8,  0x1.1bee6c07df146p-8,  0x1.86904349ec803p-9,  0x1.08c890e7cdbf7p-9,  0x1.61de1f985b5d7p-10,
    0x1.d21af4ae0dd6dp-11, 0x1.2e86fd7d03406p-11, 0x1.8301be4097ac0p-12, 0x1.e7dbc92b77dd5p-13, 0x1.2eff7fc311e78p-13,
    0x1.72d9564b2dce0p-14, 0x1.bf37663a4a43bp-15, 0x1.09ad7954afff8p-15, 0x1.36feaecd8d1e3p-16, 0x1.66a5bcbf244eap-17,
    0x1.9775b45c268bcp-18, 0x1.c80728dd3b03ap-19, 0x1.f6c707d24b099p-20, 0x1.11056da03cb85p-20, 0x1.241499db1b218p-21,
    0x1.33ca2f2133831p-22, 0x1.3f7a8d8ed2701p-23, 0x1.46a16cd7b7555p-24, 0x1.48eb8caab7cc6p-25, 0x1.463cfa9c7fce7p-26,
    0x1.3eb34524706c6p-27, 0x1.32a35e335e12bp-28, 0x1.2293637785101p-29, 0x1.0f30ef0092d48p-30, 0x1.f289d4870f466p-32,
    0x1.c34c28f35ea26p-33, 0x1.9256fc30ef212p-34, 0x1.61404b2da0191p-35, 0x1.317156a77fb3bp-36, 0x1.041789eb749a0p-37,
    0x1.b437009ea26ddp-39, 0x1.683c36759a444p-40, 0x1.24f60a258d235p-41, 0x1.d53e3e82da9c6p-43, 0x1.721278ef40b1fp-44,
    0x1.1f68f3dbb818ap-45, 0x1.b79cff2b8cab9p-47, 0x1.4b13ea9a9f5c3p-48, 0x1.eb0fed119b102p-50, 0x1.669d2c90d55cep-51,
    0x1.01e30a1d54c78p-52, 0x1.6d3ba010ac799p-54, 0x1.fd59ae3f7142ep-56, 0x1.5dbbaccf1a4e0p-57, 0x1.d8eb99f7f7726p-59,
    0x1.3ada639cabc7ap-60, 0x1.9cd063226c868p-62, 0x1.0a7afbb1ee67cp-63};

/// 1 / sqrt(2 pi), 2 sqrt(2 / pi), and 0.044715 times the second one; each rounded to nearest.
constexpr double normal_density = 0x1.9884533d43651p-2, gelu_step = 0x1.9884533d43651p+0,
                 gelu_bend = 0x1.2444f2a4d8b4bp-4;

}  // namespace driftbound::bounds
