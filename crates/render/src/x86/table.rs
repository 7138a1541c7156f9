//! The vector instructions in use, a row each: where its legacy, VEX and EVEX forms are.
//!
//! iced lists the forms of one instruction side by side, the narrowest vector first, so a row needs only the first of
//! each kind. A test decodes every form of every row back to the row's name.

use super::program::Size;
use frit_abi::target::Isa;
use iced_x86::Code;

/// One instruction in all its encodings: numbers of iced's codes, 0 where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    sse: u16,
    vex: u16,
    evex: u16,
    /// Of one element or one size only.
    is_single: bool,
}

impl Row {
    /// The code of an instruction set at a vector size; `wide` where a register above 15, a mask or a broadcast needs
    /// the EVEX form. `None` if the set lacks it.
    pub fn code(self, isa: Isa, size: Size, wide: bool) -> Option<Code> {
        let at = match size {
            Size::Y | Size::Z if self.is_single => return None,
            Size::Y => 1,
            Size::Z => 2,
            _ => 0,
        };
        let number = match isa {
            Isa::Avx512 if self.evex != 0 && (wide || at == 2 || self.vex == 0) => self.evex + at,
            Isa::Avx512 | Isa::Avx2 if self.vex != 0 && !wide && at < 2 => self.vex + at,
            Isa::Sse2 if self.sse != 0 && at == 0 => self.sse,
            _ => return None,
        };
        Code::try_from(number as usize).ok()
    }
    /// Whether the instruction set has it.
    pub fn is_in(self, isa: Isa) -> bool {
        self.code(isa, Size::X, false).is_some() || self.code(isa, Size::X, true).is_some()
    }
}

/// Legacy; VEX of 16 and 32 bytes; EVEX of 16, 32 and 64.
const fn six(first: Code) -> Row {
    let n = first as u16;
    Row { sse: n, vex: n + 1, evex: n + 3, is_single: false }
}
/// Legacy, VEX and EVEX, of one element (or one size).
const fn three(first: Code) -> Row {
    let n = first as u16;
    Row { sse: n, vex: n + 1, evex: n + 2, is_single: true }
}
/// VEX of two sizes, EVEX of three.
const fn five(first: Code) -> Row {
    let n = first as u16;
    Row { sse: 0, vex: n, evex: n + 2, is_single: false }
}
/// VEX and EVEX that do not stand together.
const fn pair(vex: Code, evex: Code) -> Row {
    Row { sse: 0, vex: vex as u16, evex: evex as u16, is_single: false }
}
/// EVEX only.
const fn evex(first: Code) -> Row {
    Row { sse: 0, vex: 0, evex: first as u16, is_single: false }
}
/// VEX only.
const fn vex(first: Code) -> Row {
    Row { sse: 0, vex: first as u16, evex: 0, is_single: false }
}
/// Legacy, VEX of two sizes; no EVEX.
const fn narrow(first: Code) -> Row {
    let n = first as u16;
    Row { sse: n, vex: n + 1, evex: 0, is_single: false }
}
/// Legacy, VEX, EVEX as they are found.
const fn each(sse: Code, vex: Code, evex: Code) -> Row {
    Row { sse: sse as u16, vex: vex as u16, evex: evex as u16, is_single: true }
}

macro_rules! rows {
    ($($name:ident = $row:expr;)*) => {
        $(#[doc = stringify!($name)] pub const $name: Row = $row;)*
        /// Every row with its name.
        #[cfg(test)]
        pub const ALL: &[(&str, Row)] = &[$((stringify!($name), $name)),*];
    };
}

use Code::*;
#[rustfmt::skip]
rows! {
    // moves: whole vectors, one element, to and from general registers
    MOVUPS    = six(Movups_xmm_xmmm128);
    MOVUPS_TO = six(Movups_xmmm128_xmm);
    MOVAPS    = six(Movaps_xmm_xmmm128);
    MOVSS     = each(Movss_xmm_xmmm32, VEX_Vmovss_xmm_m32, EVEX_Vmovss_xmm_k1z_m32);
    MOVSD     = each(Movsd_xmm_xmmm64, VEX_Vmovsd_xmm_m64, EVEX_Vmovsd_xmm_k1z_m64);
    MOVSS_TO  = each(Movss_xmmm32_xmm, VEX_Vmovss_m32_xmm, EVEX_Vmovss_m32_k1_xmm);
    MOVSD_TO  = each(Movsd_xmmm64_xmm, VEX_Vmovsd_m64_xmm, EVEX_Vmovsd_m64_k1_xmm);
    MOVD      = each(Movd_xmm_rm32, VEX_Vmovd_xmm_rm32, EVEX_Vmovd_xmm_rm32);
    MOVQ      = each(Movq_xmm_rm64, VEX_Vmovq_xmm_rm64, EVEX_Vmovq_xmm_rm64);
    MOVD_TO   = each(Movd_rm32_xmm, VEX_Vmovd_rm32_xmm, EVEX_Vmovd_rm32_xmm);
    MOVQ_TO   = each(Movq_rm64_xmm, VEX_Vmovq_rm64_xmm, EVEX_Vmovq_rm64_xmm);
    MOVDQU8     = evex(EVEX_Vmovdqu8_xmm_k1z_xmmm128);
    MOVDQU16    = evex(EVEX_Vmovdqu16_xmm_k1z_xmmm128);
    MOVDQU32    = evex(EVEX_Vmovdqu32_xmm_k1z_xmmm128);
    MOVDQU64    = evex(EVEX_Vmovdqu64_xmm_k1z_xmmm128);
    MOVDQU8_TO  = evex(EVEX_Vmovdqu8_xmmm128_k1z_xmm);
    MOVDQU16_TO = evex(EVEX_Vmovdqu16_xmmm128_k1z_xmm);
    MOVDQU32_TO = evex(EVEX_Vmovdqu32_xmmm128_k1z_xmm);
    MOVDQU64_TO = evex(EVEX_Vmovdqu64_xmmm128_k1z_xmm);
    PMASKMOVD    = vex(VEX_Vpmaskmovd_xmm_xmm_m128);
    PMASKMOVQ    = vex(VEX_Vpmaskmovq_xmm_xmm_m128);
    PMASKMOVD_TO = vex(VEX_Vpmaskmovd_m128_xmm_xmm);
    PMASKMOVQ_TO = vex(VEX_Vpmaskmovq_m128_xmm_xmm);
    // one element from memory into a lane, and from a lane to memory
    PINSRB    = each(INVALID, VEX_Vpinsrb_xmm_xmm_r32m8_imm8, EVEX_Vpinsrb_xmm_xmm_r32m8_imm8);
    PINSRW    = each(INVALID, VEX_Vpinsrw_xmm_xmm_r32m16_imm8, EVEX_Vpinsrw_xmm_xmm_r32m16_imm8);
    PINSRD    = each(INVALID, VEX_Vpinsrd_xmm_xmm_rm32_imm8, EVEX_Vpinsrd_xmm_xmm_rm32_imm8);
    PINSRQ    = each(INVALID, VEX_Vpinsrq_xmm_xmm_rm64_imm8, EVEX_Vpinsrq_xmm_xmm_rm64_imm8);
    PEXTRB_TO = each(INVALID, VEX_Vpextrb_r32m8_xmm_imm8, EVEX_Vpextrb_r32m8_xmm_imm8);
    PEXTRW_TO = each(INVALID, VEX_Vpextrw_r32m16_xmm_imm8, EVEX_Vpextrw_r32m16_xmm_imm8);
    PEXTRD_TO = each(INVALID, VEX_Vpextrd_rm32_xmm_imm8, EVEX_Vpextrd_rm32_xmm_imm8);
    PEXTRQ_TO = each(INVALID, VEX_Vpextrq_rm64_xmm_imm8, EVEX_Vpextrq_rm64_xmm_imm8);
    // one element everywhere, from memory or a vector register
    PBROADCASTB  = five(VEX_Vpbroadcastb_xmm_xmmm8);
    PBROADCASTW  = five(VEX_Vpbroadcastw_xmm_xmmm16);
    PBROADCASTD  = five(VEX_Vpbroadcastd_xmm_xmmm32);
    PBROADCASTQ  = pair(VEX_Vpbroadcastq_xmm_xmmm64, EVEX_Vpbroadcastq_xmm_k1z_xmmm64);
    // floats
    ADDPS = six(Addps_xmm_xmmm128);  ADDPD = six(Addpd_xmm_xmmm128);  ADDSS = three(Addss_xmm_xmmm32);  ADDSD = three(Addsd_xmm_xmmm64);
    SUBPS = six(Subps_xmm_xmmm128);  SUBPD = six(Subpd_xmm_xmmm128);  SUBSS = three(Subss_xmm_xmmm32);  SUBSD = three(Subsd_xmm_xmmm64);
    MULPS = six(Mulps_xmm_xmmm128);  MULPD = six(Mulpd_xmm_xmmm128);  MULSS = three(Mulss_xmm_xmmm32);  MULSD = three(Mulsd_xmm_xmmm64);
    DIVPS = six(Divps_xmm_xmmm128);  DIVPD = six(Divpd_xmm_xmmm128);  DIVSS = three(Divss_xmm_xmmm32);  DIVSD = three(Divsd_xmm_xmmm64);
    MAXPS = six(Maxps_xmm_xmmm128);  MAXPD = six(Maxpd_xmm_xmmm128);  MAXSS = three(Maxss_xmm_xmmm32);  MAXSD = three(Maxsd_xmm_xmmm64);
    MINPS = six(Minps_xmm_xmmm128);  MINPD = six(Minpd_xmm_xmmm128);  MINSS = three(Minss_xmm_xmmm32);  MINSD = three(Minsd_xmm_xmmm64);
    SQRTPS = six(Sqrtps_xmm_xmmm128); SQRTPD = six(Sqrtpd_xmm_xmmm128); SQRTSS = three(Sqrtss_xmm_xmmm32); SQRTSD = three(Sqrtsd_xmm_xmmm64);
    FMADD231PS = pair(VEX_Vfmadd231ps_xmm_xmm_xmmm128, EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32);
    FMADD231PD = pair(VEX_Vfmadd231pd_xmm_xmm_xmmm128, EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64);
    FMADD231SS = each(Code::INVALID, VEX_Vfmadd231ss_xmm_xmm_xmmm32, EVEX_Vfmadd231ss_xmm_k1z_xmm_xmmm32_er);
    FMADD231SD = each(Code::INVALID, VEX_Vfmadd231sd_xmm_xmm_xmmm64, EVEX_Vfmadd231sd_xmm_k1z_xmm_xmmm64_er);
    FMADD213PS = pair(VEX_Vfmadd213ps_xmm_xmm_xmmm128, EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32);
    FMADD213PD = pair(VEX_Vfmadd213pd_xmm_xmm_xmmm128, EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64);
    FMADD213SS = each(Code::INVALID, VEX_Vfmadd213ss_xmm_xmm_xmmm32, EVEX_Vfmadd213ss_xmm_k1z_xmm_xmmm32_er);
    FMADD213SD = each(Code::INVALID, VEX_Vfmadd213sd_xmm_xmm_xmmm64, EVEX_Vfmadd213sd_xmm_k1z_xmm_xmmm64_er);
    ROUNDPS = vex(VEX_Vroundps_xmm_xmmm128_imm8);   ROUNDPD = vex(VEX_Vroundpd_xmm_xmmm128_imm8);
    RNDSCALEPS = evex(EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8);
    RNDSCALEPD = evex(EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8);
    CMPPS = narrow(Cmpps_xmm_xmmm128_imm8);  CMPPD = narrow(Cmppd_xmm_xmmm128_imm8);
    CMPPS_K = evex(EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8);
    CMPPD_K = evex(EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8);
    // integers
    PADDB = six(Paddb_xmm_xmmm128);  PADDW = six(Paddw_xmm_xmmm128);  PADDD = six(Paddd_xmm_xmmm128);  PADDQ = six(Paddq_xmm_xmmm128);
    PSUBB = six(Psubb_xmm_xmmm128);  PSUBW = six(Psubw_xmm_xmmm128);  PSUBD = six(Psubd_xmm_xmmm128);  PSUBQ = six(Psubq_xmm_xmmm128);
    PMULLW = six(Pmullw_xmm_xmmm128);
    PMULLD = pair(VEX_Vpmulld_xmm_xmm_xmmm128, EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32);
    PMULLQ = evex(EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64);
    PMULUDQ = six(Pmuludq_xmm_xmmm128);
    PMADDWD = six(Pmaddwd_xmm_xmmm128);
    // of AVX-512, which not every machine has in the other encoding too
    PDPBUSD = evex(EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32);
    PDPBUSD_VEX = vex(VEX_Vpdpbusd_xmm_xmm_xmmm128);
    PAND = six(Pand_xmm_xmmm128);  PANDN = six(Pandn_xmm_xmmm128);  POR = six(Por_xmm_xmmm128);  PXOR = six(Pxor_xmm_xmmm128);
    PMINSD = five(VEX_Vpminsd_xmm_xmm_xmmm128);  PMAXSD = five(VEX_Vpmaxsd_xmm_xmm_xmmm128);
    PMINUD = five(VEX_Vpminud_xmm_xmm_xmmm128);  PMAXUD = five(VEX_Vpmaxud_xmm_xmm_xmmm128);
    PMINSQ = evex(EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64);  PMAXSQ = evex(EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64);
    PMINUQ = evex(EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64);  PMAXUQ = evex(EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64);
    PMINSB = five(VEX_Vpminsb_xmm_xmm_xmmm128);  PMAXSB = five(VEX_Vpmaxsb_xmm_xmm_xmmm128);
    PMINUB = six(Pminub_xmm_xmmm128);            PMAXUB = six(Pmaxub_xmm_xmmm128);
    PMINSW = six(Pminsw_xmm_xmmm128);            PMAXSW = six(Pmaxsw_xmm_xmmm128);
    PMINUW = five(VEX_Vpminuw_xmm_xmm_xmmm128);  PMAXUW = five(VEX_Vpmaxuw_xmm_xmm_xmmm128);
    PCMPEQB = narrow(Pcmpeqb_xmm_xmmm128);  PCMPEQW = narrow(Pcmpeqw_xmm_xmmm128);  PCMPEQD = narrow(Pcmpeqd_xmm_xmmm128);
    PCMPEQQ = vex(VEX_Vpcmpeqq_xmm_xmm_xmmm128);
    PCMPGTB = narrow(Pcmpgtb_xmm_xmmm128);  PCMPGTW = narrow(Pcmpgtw_xmm_xmmm128);  PCMPGTD = narrow(Pcmpgtd_xmm_xmmm128);
    PCMPGTQ = vex(VEX_Vpcmpgtq_xmm_xmm_xmmm128);
    PCMPB_K = evex(EVEX_Vpcmpb_kr_k1_xmm_xmmm128_imm8);      PCMPUB_K = evex(EVEX_Vpcmpub_kr_k1_xmm_xmmm128_imm8);
    PCMPW_K = evex(EVEX_Vpcmpw_kr_k1_xmm_xmmm128_imm8);      PCMPUW_K = evex(EVEX_Vpcmpuw_kr_k1_xmm_xmmm128_imm8);
    PCMPD_K = evex(EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8);   PCMPUD_K = evex(EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8);
    PCMPQ_K = evex(EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8);   PCMPUQ_K = evex(EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8);
    // shifts by a number, by a number for each lane
    PSLLW = six(Psllw_xmm_imm8);  PSLLD = six(Pslld_xmm_imm8);  PSLLQ = six(Psllq_xmm_imm8);
    PSRLW = six(Psrlw_xmm_imm8);  PSRLD = six(Psrld_xmm_imm8);  PSRLQ = six(Psrlq_xmm_imm8);
    PSRAW = six(Psraw_xmm_imm8);  PSRAD = six(Psrad_xmm_imm8);  PSRAQ = evex(EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8);
    PSRLDQ = six(Psrldq_xmm_imm8);
    PSLLVW = evex(EVEX_Vpsllvw_xmm_k1z_xmm_xmmm128);
    PSRLVW = evex(EVEX_Vpsrlvw_xmm_k1z_xmm_xmmm128);
    PSRAVW = evex(EVEX_Vpsravw_xmm_k1z_xmm_xmmm128);
    PSLLVD = pair(VEX_Vpsllvd_xmm_xmm_xmmm128, EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32);
    PSRLVD = pair(VEX_Vpsrlvd_xmm_xmm_xmmm128, EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32);
    PSRAVD = pair(VEX_Vpsravd_xmm_xmm_xmmm128, EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32);
    PSLLVQ = pair(VEX_Vpsllvq_xmm_xmm_xmmm128, EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64);
    PSRLVQ = pair(VEX_Vpsrlvq_xmm_xmm_xmmm128, EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64);
    PSRAVQ = evex(EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64);
    // choosing
    BLENDVPS = vex(VEX_Vblendvps_xmm_xmm_xmmm128_xmm);
    BLENDVPD = vex(VEX_Vblendvpd_xmm_xmm_xmmm128_xmm);
    PBLENDVB = vex(VEX_Vpblendvb_xmm_xmm_xmmm128_xmm);
    PBLENDMB = evex(EVEX_Vpblendmb_xmm_k1z_xmm_xmmm128);
    PBLENDMW = evex(EVEX_Vpblendmw_xmm_k1z_xmm_xmmm128);
    PBLENDMD = evex(EVEX_Vpblendmd_xmm_k1z_xmm_xmmm128b32);
    PBLENDMQ = evex(EVEX_Vpblendmq_xmm_k1z_xmm_xmmm128b64);
    PTESTMB = evex(EVEX_Vptestmb_kr_k1_xmm_xmmm128);
    // wider and narrower integers
    PMOVSXBW = five(VEX_Vpmovsxbw_xmm_xmmm64);  PMOVZXBW = five(VEX_Vpmovzxbw_xmm_xmmm64);
    PMOVSXBD = five(VEX_Vpmovsxbd_xmm_xmmm32);  PMOVZXBD = five(VEX_Vpmovzxbd_xmm_xmmm32);
    PMOVSXBQ = five(VEX_Vpmovsxbq_xmm_xmmm16);  PMOVZXBQ = five(VEX_Vpmovzxbq_xmm_xmmm16);
    PMOVSXWD = five(VEX_Vpmovsxwd_xmm_xmmm64);  PMOVZXWD = five(VEX_Vpmovzxwd_xmm_xmmm64);
    PMOVSXWQ = five(VEX_Vpmovsxwq_xmm_xmmm32);  PMOVZXWQ = five(VEX_Vpmovzxwq_xmm_xmmm32);
    PMOVSXDQ = five(VEX_Vpmovsxdq_xmm_xmmm64);  PMOVZXDQ = five(VEX_Vpmovzxdq_xmm_xmmm64);
    PMOVWB = evex(EVEX_Vpmovwb_xmmm64_k1z_xmm);  PMOVDB = evex(EVEX_Vpmovdb_xmmm32_k1z_xmm);
    PMOVQB = evex(EVEX_Vpmovqb_xmmm16_k1z_xmm);  PMOVDW = evex(EVEX_Vpmovdw_xmmm64_k1z_xmm);
    PMOVQW = evex(EVEX_Vpmovqw_xmmm32_k1z_xmm);  PMOVQD = evex(EVEX_Vpmovqd_xmmm64_k1z_xmm);
    PACKSSDW = six(Packssdw_xmm_xmmm128);  PACKUSWB = six(Packuswb_xmm_xmmm128);  PACKUSDW = five(VEX_Vpackusdw_xmm_xmm_xmmm128);
    // floats from and to integers and each other
    CVTDQ2PS  = six(Cvtdq2ps_xmm_xmmm128);    CVTTPS2DQ = six(Cvttps2dq_xmm_xmmm128);
    CVTDQ2PD  = six(Cvtdq2pd_xmm_xmmm64);     CVTTPD2DQ = six(Cvttpd2dq_xmm_xmmm128);
    CVTPS2PD  = six(Cvtps2pd_xmm_xmmm64);     CVTPD2PS  = six(Cvtpd2ps_xmm_xmmm128);
    CVTUDQ2PS = evex(EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32);  CVTTPS2UDQ = evex(EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32);
    CVTUDQ2PD = evex(EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32);   CVTTPD2UDQ = evex(EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64);
    CVTQQ2PS  = evex(EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64);   CVTTPS2QQ  = evex(EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32);
    CVTQQ2PD  = evex(EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64);   CVTTPD2QQ  = evex(EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64);
    CVTUQQ2PS = evex(EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64);  CVTTPS2UQQ = evex(EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32);
    CVTUQQ2PD = evex(EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64);  CVTTPD2UQQ = evex(EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64);
    CVTPH2PS  = five(VEX_Vcvtph2ps_xmm_xmmm64);            CVTPS2PH   = five(VEX_Vcvtps2ph_xmmm64_xmm_imm8);
    CVTSI2SS_D = each(Cvtsi2ss_xmm_rm32, VEX_Vcvtsi2ss_xmm_xmm_rm32, EVEX_Vcvtsi2ss_xmm_xmm_rm32_er);
    CVTSI2SS_Q = each(Cvtsi2ss_xmm_rm64, VEX_Vcvtsi2ss_xmm_xmm_rm64, EVEX_Vcvtsi2ss_xmm_xmm_rm64_er);
    CVTSI2SD_D = each(Cvtsi2sd_xmm_rm32, VEX_Vcvtsi2sd_xmm_xmm_rm32, EVEX_Vcvtsi2sd_xmm_xmm_rm32_er);
    CVTSI2SD_Q = each(Cvtsi2sd_xmm_rm64, VEX_Vcvtsi2sd_xmm_xmm_rm64, EVEX_Vcvtsi2sd_xmm_xmm_rm64_er);
    CVTTSD2SI_Q = each(Cvttsd2si_r64_xmmm64, VEX_Vcvttsd2si_r64_xmmm64, EVEX_Vcvttsd2si_r64_xmmm64_sae);
    CVTSS2SD = three(Cvtss2sd_xmm_xmmm32);  CVTSD2SS = three(Cvtsd2ss_xmm_xmmm64);
    // lanes into place
    PUNPCKLBW = six(Punpcklbw_xmm_xmmm128);  PUNPCKLWD = six(Punpcklwd_xmm_xmmm128);
    PUNPCKLDQ = six(Punpckldq_xmm_xmmm128);  PUNPCKLQDQ = six(Punpcklqdq_xmm_xmmm128);
    PUNPCKHBW = six(Punpckhbw_xmm_xmmm128);  PUNPCKHWD = six(Punpckhwd_xmm_xmmm128);
    PUNPCKHDQ = six(Punpckhdq_xmm_xmmm128);  PUNPCKHQDQ = six(Punpckhqdq_xmm_xmmm128);
    PSHUFD = six(Pshufd_xmm_xmmm128_imm8);   SHUFPS = six(Shufps_xmm_xmmm128_imm8);
    SHUFPD = six(Shufpd_xmm_xmmm128_imm8);   PSHUFB = five(VEX_Vpshufb_xmm_xmm_xmmm128);
    PERMT2W = evex(EVEX_Vpermt2w_xmm_k1z_xmm_xmmm128);     PERMT2D = evex(EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32);
    PERMT2Q = evex(EVEX_Vpermt2q_xmm_k1z_xmm_xmmm128b64);
    PSHUFLW = six(Pshuflw_xmm_xmmm128_imm8);
    PEXTRW = each(Pextrw_r32_xmm_imm8, VEX_Vpextrw_r32_xmm_imm8, EVEX_Vpextrw_r32_xmm_imm8);
}

/// Vectors of 16 bytes out of 32 and 64, and 32 out of 64; back in. Sizes are part of the name: not rows.
pub mod halves {
    use iced_x86::Code::{self, *};
    /// (VEX, EVEX) of the upper 16 of 32 bytes.
    pub const X_OF_Y: (Code, Code) =
        (VEX_Vextractf128_xmmm128_ymm_imm8, EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8);
    /// 16 of 64.
    pub const X_OF_Z: Code = EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8;
    /// 32 of 64.
    pub const Y_OF_Z: Code = EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8;
    /// 16 into 32.
    pub const X_IN_Y: (Code, Code) =
        (VEX_Vinsertf128_ymm_ymm_xmmm128_imm8, EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8);
    /// 32 into 64.
    pub const Y_IN_Z: Code = EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8;
}

/// Chunks of 16 bytes of two registers, and words of 32 bits of one of 32 bytes.
pub mod exchange {
    use iced_x86::Code::{self, *};
    /// Two of the four of two registers of 32 bytes.
    pub const IN_Y: Code = VEX_Vperm2f128_ymm_ymm_ymmm256_imm8;
    /// One of the first, one of the second.
    pub const IN_Y_WIDE: Code = EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8;
    /// Two of the first, two of the second.
    pub const IN_Z: Code = EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8;
    /// Any words of one register.
    pub const WORDS: Code = VEX_Vpermd_ymm_ymm_ymmm256;
    /// Words of the first or the second, in their places.
    pub const CHOOSE_WORDS: Code = VEX_Vpblendd_ymm_ymm_ymmm256_imm8;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row's name from the name of one of its codes, and the encoding and vector that name states.
    #[test]
    fn every_form_of_a_row_is_the_instruction_it_is_called() {
        for (name, row) in ALL {
            let want = name.to_lowercase();
            let want = want.split('_').next().unwrap();
            let mut forms = 0;
            for isa in [Isa::Sse2, Isa::Avx2, Isa::Avx512] {
                for (size, wide) in
                    [Size::X, Size::Y, Size::Z].into_iter().flat_map(|s| [(s, false), (s, true)])
                {
                    let Some(code) = row.code(isa, size, wide) else { continue };
                    let text = format!("{code:?}");
                    let mnemonic = format!("{:?}", code.mnemonic()).to_lowercase();
                    let plain = mnemonic.strip_prefix('v').unwrap_or(&mnemonic);
                    // logic on elements of a size has it in its name with EVEX
                    let is_it = plain == want || plain.strip_suffix('d') == Some(want);
                    assert!(is_it, "{name} at {isa:?} {size:?} is {text}");
                    let encoding = match (isa, wide) {
                        (Isa::Sse2, _) => !text.contains("VEX"),
                        (Isa::Avx2, _) => text.starts_with("VEX"),
                        (_, true) => text.starts_with("EVEX"),
                        _ => text.contains("VEX"),
                    };
                    assert!(encoding, "{name} at {isa:?} {size:?} is {text}");
                    let has = |v: &str| text.contains(v);
                    let vector = match size {
                        Size::Z => has("zmm"),
                        Size::Y => has("ymm") && !has("zmm"),
                        _ => has("xmm") && !has("ymm") && !has("zmm") || has("_m32") || has("_m64"),
                    };
                    assert!(vector, "{name} at {isa:?} {size:?} is {text}");
                    forms += 1;
                }
            }
            assert!(forms > 0, "{name} has no form");
        }
    }
}
