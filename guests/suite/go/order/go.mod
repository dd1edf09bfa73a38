module order

go 1.24

require github.com/wfhost/wfhost/guests/go v0.0.0

replace github.com/wfhost/wfhost/guests/go => ../../../go
