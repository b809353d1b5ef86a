package recordstore

// IsSameRegular compares an entry with an open file.
var IsSameRegular = isSameRegular
