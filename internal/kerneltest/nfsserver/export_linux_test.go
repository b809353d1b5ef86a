package nfsserver

// Mounts returns how many were seen since the server started.
func (s *Server) Mounts() int64 { return s.tally.mounts.Load() }
