//go:build !unix

package record

const openRegular = 0
