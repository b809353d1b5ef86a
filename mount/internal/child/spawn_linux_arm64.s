#include "textflag.h"

// Numbers of asm-generic/unistd.h.
#define SYS_clone 220
#define SYS_exit_group 94

// func spawn(flags uintptr, pidfd *int32, calls *call) (pid uintptr)
//
// The child shares this stack: it keeps to registers, and never returns.
TEXT ·spawn(SB), NOSPLIT, $0-32
	MOVD flags+0(FP), R0
	MOVD $0, R1
	MOVD pidfd+8(FP), R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD calls+16(FP), R19
	MOVD $0, R20
	MOVD $SYS_clone, R8
	SVC
	CBZ R0, child
	MOVD R0, pid+24(FP)
	RET
child:
	MOVD 0(R19), R8
	CMP $-1, R8
	BEQ done
	MOVD 8(R19), R0
	MOVD 16(R19), R1
	MOVD 24(R19), R2
	MOVD 32(R19), R3
	MOVD $0, R4
	MOVD $0, R5
	SVC
	MOVD R0, R20
	ADD $40, R19
	B child
done:
	NEG R20, R0
	MOVD $SYS_exit_group, R8
	SVC
	B done
