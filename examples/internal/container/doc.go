// Package container uses the volumes of a pod as a container does, for example programs
// that run none: it shows how a volume is mounted, writes to it, and lists its files.
package container
