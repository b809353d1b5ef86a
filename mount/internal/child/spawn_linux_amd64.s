#include "textflag.h"

// Numbers of asm/unistd_64.h.
#define SYS_clone 56
#define SYS_exit_group 231

// func spawn(flags uintptr, pidfd *int32, calls *call) (pid uintptr)
//
// The child shares this stack: it keeps to registers, and never returns.
TEXT ·spawn(SB), NOSPLIT, $0-32
	MOVQ flags+0(FP), DI
	MOVQ $0, SI
	MOVQ pidfd+8(FP), DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ calls+16(FP), R12
	MOVQ $0, R13
	MOVQ $SYS_clone, AX
	SYSCALL
	TESTQ AX, AX
	JEQ child
	MOVQ AX, pid+24(FP)
	RET
child:
	MOVQ 0(R12), AX
	CMPQ AX, $-1
	JEQ done
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), R10
	MOVQ $0, R8
	MOVQ $0, R9
	SYSCALL
	MOVQ AX, R13
	ADDQ $40, R12
	JMP child
done:
	NEGQ R13
	MOVQ R13, DI
	MOVQ $SYS_exit_group, AX
	SYSCALL
	JMP done
