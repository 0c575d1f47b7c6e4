CREATE ROLE ragstone LOGIN PASSWORD 'touchstone';
CREATE DATABASE ragstone OWNER ragstone TEMPLATE template0 ENCODING 'UTF8';
